"""What a task left on its worker, as a Dask future, until the client wants it."""

from __future__ import annotations

import weakref
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, suppress
from typing import Any, ClassVar

from distributed import Client, get_client, worker_client

from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.settings import patience_s
from ooc_graph.forked import require_own_client
from ooc_graph.threads import CHECK_S

FORK_ADVICE = "read the answer before the fork"

_TRIES = 3


class Left:
    """A value on a worker, freed there once it has been fetched, or when nobody refers to it.

    ``future`` is Dask's, None once the value is here; ``address`` is that of a worker that has it,
    and ``nbytes`` what the value takes.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[Client, list[weakref.ref[Left]]]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self, cluster: Cluster, future: Any, address: str, nbytes: int) -> None:
        self.future, self.address, self.nbytes = future, address, nbytes
        self._cluster = cluster
        self._coming: Future[Any] | None = None
        self._value: Any = None
        known = self._of.setdefault(cluster.client, [])
        known.append(weakref.ref(self, known.remove))

    def is_of(self, client: Any) -> bool:
        """Whether the value is on a worker of this client's cluster."""
        return (
            self.future is not None
            and not self._cluster.is_closed
            and (self._cluster.client is client)
        )

    def fetch(self) -> Any:
        """The value, which travels once; an interrupted call leaves it to the next.

        ClusterLostError if it is lost, or its worker is silent for longer than the patience.
        UsageError on the client's event loop, which would wait for itself.
        """
        for _ in range(_TRIES):
            if (future := self.future) is None:
                break
            # Dask stops requests that travel with one that is stopped.
            with suppress(CancelledError, OSError):
                self._value = self._fetched(future)
                self.future = self._coming = None
        if self.future is not None:
            self.require_there()
            raise self._lost("which does not send it")
        return self._value

    def _fetched(self, future: Any) -> Any:
        if not self._cluster.is_closed and self._cluster.client.asynchronous:
            raise UsageError(
                "an answer that is on a worker cannot be read on the event loop of its client: "
                "read it in another thread (asyncio.to_thread)"
            )
        self.require_there()
        coming = self._coming
        if coming is None:
            coming = self._coming = self._cluster.fetch(future, self.address)
        while wait([coming], timeout=CHECK_S).not_done:
            self.require_there()
        try:
            return coming.result()
        except BaseException:
            # The next read asks anew; kept, the error and this frame would keep each other.
            self._coming = None
            raise
        finally:
            del coming

    def require_there(self) -> None:
        """Raise ClusterLostError if the value is lost: its worker, or the client's connection."""
        future = self.future
        if future is None:
            return
        if self._cluster.is_closed:
            raise self._lost("whose client is closed", "read answers before it is")
        require_own_client(self._cluster.client, FORK_ADVICE)
        state = self._cluster.look().get(self.address)
        is_silent = state is not None and state.is_silent and state.silent_s > patience_s()
        if (state is None or is_silent) and not self._is_elsewhere(future):
            if state is not None:
                silent = f"which has not answered for {state.silent_s:.0f} s"
                raise self._lost(silent, "read it again later")
            # Dask would have it searched again there, and all that need it wait without end.
            self._cluster.cancel([future])
            raise self._lost("which left the cluster")
        if future.status == "cancelled":
            raise self._lost("where it is no longer")

    def _is_elsewhere(self, future: Any) -> bool:
        """Whether Dask has moved or copied the value to a worker that answers; or nobody knows."""
        try:
            holders = self._cluster.holders_of([future.key]).get(future.key, [])
        except OSError:
            return True  # the scheduler does not answer: `look` counts that
        states = self._cluster.look()
        for address in holders:
            if (state := states.get(address)) is None or not state.is_silent:
                self.address = address
                return True
        return False

    def _lost(self, why: str, *advice: str) -> ClusterLostError:
        what = ", or ".join(["search again", *advice])
        return ClusterLostError(f"the answer is on worker {self.address}, {why}: {what}")

    @classmethod
    def bring_oldest(cls, client: Client, most_bytes: int) -> None:
        """Fetch what was left first until no more than some bytes are on workers of a client.

        Workers that cannot work have nothing to be fetched for.
        """
        known = [ref() for ref in list(cls._of.get(client, []))]
        there = [one for one in known if one is not None and one.is_of(client)]
        states = Cluster.of(client).look() if there else {}
        there = [one for one in there if (s := states.get(one.address)) and s.can_work]
        left_bytes = sum(one.nbytes for one in there)
        for one in there:
            if left_bytes <= most_bytes:
                return
            left_bytes -= one.nbytes
            with suppress(Exception):  # raised again for whoever reads that answer
                one.fetch()


def fetch_anothers(future: Any, address: str) -> Any:
    """Fetch what another process's client left; ``future`` is Dask's as that process pickled it.

    A task waits outside of its worker's threads, as the worker may be that which has the value.
    """
    with ExitStack() as stack:
        try:
            client = stack.enter_context(worker_client())
        except ValueError:
            client = _current_client(address)
        cluster = Cluster.of(client)
        with cluster.talking():
            same = client.submit(_same, future, pure=False)
        return Left(cluster, same, address, 0).fetch()


def _current_client(address: str) -> Client:
    try:
        client = get_client()
    except ValueError:
        raise UsageError(
            f"the answer is on the Dask worker {address}, and there is no client: make one of its "
            "cluster, or read the answer before it is pickled"
        ) from None
    require_own_client(client, FORK_ADVICE)
    return client


def _same(value: Any) -> Any:
    return value
