"""Results of tasks that stay on their workers; what is asked of them goes there.

A result says by `for_client` what the client is told of it at once. If that is less than all, the
client has a `Kept` for the rest, and the worker has the result until that is gone: it is the result
of a task that the client's future names, so that Dask knows of it, moves it if it retires the
worker, writes it to the disk if its memory is short, and drops it if the client is gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.settings import answer_timeout_s, patience_s
from ooc_graph.forked import require_own_client
from ooc_graph.threads import CHECK_S

_TRIES = 3

_kept: WeakValueDictionary[int, Kept] = WeakValueDictionary()


def kept_bytes(cluster: Cluster) -> int:
    """Bytes of what the worker keeps for a client of this process that keeps the most."""
    kept = Counter[str]()
    # Others come meanwhile, on the clients' event loops, and go.
    for one in filter(None, [reference() for reference in _kept.valuerefs()]):
        if one.is_of(cluster):
            kept[one.address] += one.nbytes
    return max(kept.values(), default=0)


class Kept:
    """The result of a task on the worker that has it, which keeps it for as long as this lives.

    It takes ``nbytes`` there.
    """

    def __init__(self, cluster: Cluster, future: Any, address: str) -> None:
        self.future, self.address, self.nbytes = future, address, 0
        self._cluster = cluster
        _kept[id(self)] = self

    def is_of(self, cluster: Cluster) -> bool:
        """Whether a worker of this client's cluster has it."""
        return cluster is self._cluster

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function gives that is called with the result, and arguments, where that is.

        It is quick, as it is called on the worker's event loop. ClusterLostError if the result is
        lost, or its worker is silent for longer than the patience.
        """
        client, why = self._open_client(), "does not answer"
        for _ in range(_TRIES):
            asked = client, self.address, _asked, self.future.key, function, arguments
            with suppress(OSError):
                if answer := self._wait(self._cluster.outcomes.ask(*asked)):
                    return answer[0]
                why = "no longer has it"
            # Dask may have moved it.
            self.address = self._holder(why)
        raise self._lost(why)

    def for_dask(self) -> Any:
        """The future, to be used in Dask's graphs: if its worker is lost, another makes it anew.

        ClusterLostError if it is lost already.
        """
        client = self._open_client()
        # Else it waits for a worker of the same address, and whatever needs it, too.
        with suppress(KeyError, OSError, ClusterLostError):
            anywhere: dict[Any, list[str]] = {self.future.key: []}
            free = client.scheduler.set_restrictions
            self._cluster.sync(free, worker=anywhere, timeout_s=answer_timeout_s())
        self._holder("no longer has it")
        return self.future

    def _open_client(self) -> Any:
        client = self.future.client
        require_own_client(client)
        if self._cluster.is_closed:
            raise self._lost("the client is closed")
        return client

    def _wait(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """Wait for an answer of the worker for as long as that is there."""
        with self._cluster.talking():
            loop = self.future.client.loop.asyncio_loop
            promised = asyncio.run_coroutine_threadsafe(answer, loop)
            try:
                while wait([promised], timeout=CHECK_S).not_done:
                    states = self._cluster.look()
                    if self.address not in states:
                        raise ConnectionError(self.address)
                    if states[self.address].silent_s > patience_s():
                        raise self._lost("does not answer")
                return promised.result()
            finally:
                promised.cancel()

    def _holder(self, why: str) -> str:
        key, holders = self.future.key, dict[str, list[str]]()
        with suppress(OSError, ClusterLostError):
            holders = self._cluster.holders_of([key])
        if not holders.get(key):
            raise self._lost(why)
        return holders[key][0]

    def _lost(self, why: str) -> ClusterLostError:
        return ClusterLostError(
            f"an answer that was not read yet is lost with worker {self.address} ({why}): search "
            "again"
        )


async def arrived(cluster: Cluster, future: Any, address: str | None, **options: Any) -> Any:
    """As `Outcomes.of`, but a result that says so stays on its worker."""
    await future._state.wait()
    if address is not None and future.status == "finished":
        sent = None
        with suppress(OSError):
            sent = await cluster.outcomes.ask(future.client, address, _for_client, future.key)
        if sent is not None:
            value, stays = sent
            if stays:
                value.kept_by(Kept(cluster, future, address))
            return value
    return await cluster.outcomes.of(future, address, **options)


def _for_client(key: Any, dask_worker: Any) -> tuple[Any, bool] | None:
    """What a client is sent of a result, and whether that is not all; None if it is not here."""
    value = dask_worker.data.get(key)
    if value is None:
        return None
    sent = value.for_client()
    return sent, sent is not value


def _asked(
    key: Any, function: Callable[..., Any], arguments: tuple[Any, ...], dask_worker: Any
) -> tuple[Any] | None:
    value = dask_worker.data.get(key)
    return None if value is None else (function(value, *arguments),)
