"""What tasks left on their workers, as Dask futures, until the client wants it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, suppress
from typing import Any, ClassVar, TypeAlias

from distributed import Client, get_client, worker_client

from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.forked import require_own_client
from ooc_graph.settings import patience_s
from ooc_graph.threads import CHECK_S

FORK_ADVICE = "read the answer before the fork"

There: TypeAlias = tuple[Any, str]
"""Dask's future of what a task left, and the address of a worker that has it."""

_TRIES = 3
_GONE = "which left the cluster"


class Left:
    """Parts of a value on workers, freed there once it is here, or when nobody refers to it.

    ``join`` makes the value of the list of them. ``futures`` are Dask's, of one part each; there
    are none once the value is here. ``addresses`` are of workers that have the parts, which take
    ``sizes`` in bytes.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[Client, list[weakref.ref[Left]]]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(
        self,
        cluster: Cluster,
        there: Sequence[There],
        sizes: Sequence[int],
        join: Callable[[list[Any]], Any],
    ) -> None:
        self.futures = [future for future, _ in there]
        self.addresses = [address for _, address in there]
        self.sizes, self._join = sizes, join
        self._cluster = cluster
        self._coming: list[Future[Any]] = []
        self._gone = ""  # the worker whose part was lost
        self._value: Any = None
        known = self._of.setdefault(cluster.client, [])
        known.append(weakref.ref(self, known.remove))

    @property
    def there(self) -> tuple[There, ...]:
        """The parts; none if the value is here."""
        return tuple(zip(self.futures, self.addresses, strict=False))

    def is_of(self, client: Any) -> bool:
        """Whether the value is on workers of this client's cluster."""
        is_open = bool(self.futures) and not self._cluster.is_closed
        return is_open and self._cluster.client is client

    def fetch(self) -> Any:
        """The value, whose parts travel once; an interrupted call leaves them to the next.

        ClusterLostError if it is lost, or its worker is silent for longer than the patience.
        UsageError on the client's event loop, which would wait for itself.
        """
        for _ in range(_TRIES):
            if not (there := self.there):
                return self._value
            parts: list[Any] | None = None
            # Dask stops requests that travel with one that is stopped.
            with suppress(CancelledError, OSError):
                parts = self._fetched(there)
            if parts is not None:
                self._coming = []
                # Until it is joined, others are given the futures.
                self._value = self._join(parts)
                self.futures = []
        if self.futures:
            self.require_there()
            raise self._lost(self.addresses, "which does not send it")
        return self._value

    def _fetched(self, there: Sequence[There]) -> list[Any]:
        if not self._cluster.is_closed and self._cluster.client.asynchronous:
            raise UsageError(
                "an answer that is on a worker cannot be read on the event loop of its client: "
                "read it in another thread (asyncio.to_thread)"
            )
        self.require_there()
        coming = self._coming
        if not coming:
            coming = self._coming = [self._cluster.fetch(*each) for each in there]
        while wait(coming, timeout=CHECK_S).not_done:
            self.require_there()
        try:
            return [each.result() for each in coming]
        except BaseException:
            # The next read asks anew; kept, the error and this frame would keep each other.
            self._coming = []
            raise
        finally:
            del coming

    def require_there(self) -> None:
        """Raise ClusterLostError if a part is lost: its worker, or the client's connection."""
        if not (there := self.there):
            return
        self.require_client()
        if self._gone:
            raise self._lost([self._gone], _GONE)
        for number, (future, address) in enumerate(there):
            self._require(number, future, address)

    def require_client(self) -> None:
        """Raise ClusterLostError if the client is closed, UsageError if it is another process's."""
        if self.futures and self._cluster.is_closed:
            raise self._lost(self.addresses, "whose client is closed", "read answers before it is")
        require_own_client(self._cluster.client, FORK_ADVICE)

    def _require(self, number: int, future: Any, address: str) -> None:
        state = self._cluster.look().get(address)
        is_silent = state is not None and state.is_silent and state.silent_s > patience_s()
        if (state is None or is_silent) and not self._is_elsewhere(number, future):
            if state is not None:
                silent = f"which has not answered for {state.silent_s:.0f} s"
                raise self._lost([address], silent, "read it again later")
            # Dask would have it searched again there, and all that need it wait without end. The
            # other parts are of no use any more.
            self._cluster.cancel(self.futures)
            self._coming, self._gone = [], address
            raise self._lost([address], _GONE)
        if future.status == "cancelled":
            raise self._lost([address], "where it is no longer")

    def _is_elsewhere(self, number: int, future: Any) -> bool:
        """Whether Dask has moved or copied a part to a worker that answers; or nobody knows."""
        try:
            holders = self._cluster.holders_of([future.key]).get(future.key, [])
        except OSError:
            return True  # the scheduler does not answer: `look` counts that
        states = self._cluster.look()
        for address in holders:
            if (state := states.get(address)) is None or not state.is_silent:
                self.addresses[number] = address
                return True
        return False

    def _lost(self, addresses: Sequence[str], why: str, *advice: str) -> ClusterLostError:
        answer = "the answer" if len(addresses) == len(self.addresses) else "part of the answer"
        where = f"worker{'s' if len(addresses) > 1 else ''} {' and '.join(addresses)}"
        what = ", or ".join(["search again", *advice])
        return ClusterLostError(f"{answer} is on {where}, {why}: {what}")

    @classmethod
    def bring_oldest(cls, client: Client, most_bytes: int) -> None:
        """Fetch what was left first until no worker of a client has more than some bytes.

        What is lost is freed on the workers that have other parts of it. Nothing is fetched of
        which a part is on a worker that cannot work.
        """
        known = [ref() for ref in list(cls._of.get(client, []))]
        there = [one for one in known if one is not None and one.is_of(client)]
        states = Cluster.of(client).look() if there else {}
        good = {address for address, state in states.items() if state.can_work}
        for one in there:
            if not good.issuperset(one.addresses):
                with suppress(Exception):  # raised again for whoever reads that answer
                    one.require_there()
        left_bytes = sum((one._bytes_at() for one in there), Counter[str]())
        for one in there:
            taken = one._bytes_at()
            is_much = any(left_bytes[address] > most_bytes for address in taken)
            if is_much and good.issuperset(taken):
                with suppress(Exception):
                    one.fetch()
                    left_bytes -= taken

    def _bytes_at(self) -> Counter[str]:
        """What the parts take that are not freed, by address."""
        taken = Counter[str]()
        for (future, address), nbytes in zip(self.there, self.sizes, strict=False):
            taken[address] += nbytes * (future.status != "cancelled")
        return taken


def fetch_anothers(there: Sequence[There], join: Callable[[list[Any]], Any]) -> Any:
    """Fetch what another process's client left; futures are Dask's as that process pickled them.

    A task waits outside of its worker's threads, as the worker may be that which has the value.
    """
    with ExitStack() as stack:
        try:
            client = stack.enter_context(worker_client())
        except ValueError:
            client = _current_client(there[0][1])
        cluster = Cluster.of(client)
        with cluster.talking():
            same = [(client.submit(_same, one, pure=False), at) for one, at in there]
        return Left(cluster, same, [0] * len(same), join).fetch()


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
