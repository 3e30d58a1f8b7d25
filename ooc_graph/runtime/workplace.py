"""Where work is done: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ooc_graph import __version__
from ooc_graph.errors import ClusterLostError, MemoryBudgetError, UsageError
from ooc_graph.forked import is_parents, require_own_client
from ooc_graph.model.resources import AUTO, NO_LIMITS, CudaLimits, Device, Resources
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.configured import configured
from ooc_graph.runtime.devices import choose_on_workers
from ooc_graph.runtime.this_process import LOG, Offer, ThisProcess
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import Progress

if TYPE_CHECKING:
    from distributed import Client

    from ooc_graph.exchange.worker_states import WorkerState
    from ooc_graph.runtime.worker_memory import Brought

Done = TypeVar("Done")


class OnCluster(Offer):
    """Workers of a Dask cluster; ``note`` gets one line if a worker cannot continue.

    ``limit_bytes`` is for all workers together; None: what the workers bring. ClusterLostError says
    that no worker can work within the patience, MemoryBudgetError that Dask's limits leave none any
    memory for a search.
    """

    is_limited = has_client = True

    def __init__(
        self,
        client: Client,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
        note: Callable[[str], None] = LOG.warning,
    ) -> None:
        # Imported here: a run without a cluster needs no Dask.
        from ooc_graph.exchange.cluster import Cluster  # noqa: PLC0415
        from ooc_graph.exchange.tasks import Tasks  # noqa: PLC0415

        super().__init__(wanted, cuda_limits)
        self.client: Client = client
        self.cluster = Cluster.of(client)
        self.note = note
        self._tasks = Tasks(self.cluster, note)
        self._brought: dict[str, Brought] = {}
        self._given = limit_bytes
        workers = self._workers()
        self._at_first = max(len(self.cluster.look()), len(workers))
        self.limit_bytes = sum(map(self._limit, workers))

    def _choose_device(self) -> Device:
        """CUDA if every worker has a device that can be used."""
        return choose_on_workers(self.wanted, self.cluster.asked)

    def resources(self, *, on_cpu: bool = False, least: int = 0) -> Resources:
        """What the workers that can work now bring, or ``least`` of their kind if they are fewer.

        ``on_cpu``: no device is looked for.
        """
        workers = self._workers()
        threads = min(worker.threads for worker in workers.values())
        limits = [self._limit(address) for address in workers]
        limits += (least - len(limits)) * [max(limits)]
        return self._resources(on_cpu, self.limit_bytes, limits, threads)

    def with_lost(self, lost: str) -> tuple[str, Resources] | None:
        """Which workers were lost, in words, and what there would be with them; None if none was.

        ``lost`` says what was lost during a call, and may be back.
        """
        working, there = len(self._workers()), self.cluster.look()
        # Dask's limits leave them no memory at another time either.
        unfit = sum(bool(one.why) for at, one in self._brought.items() if at in there)
        gone = self._at_first - working - unfit
        if gone <= 0 and not lost:
            return None
        words = lost or f"{gone} of {self._at_first} workers cannot work"
        return words, self.resources(least=working + gone)

    def _workers(self) -> dict[str, WorkerState]:
        """Workers that can work and have said how much memory they bring; or ClusterLostError."""
        from ooc_graph.exchange.worker_states import NO_WORKERS, describe  # noqa: PLC0415

        chosen = self.cluster.wait_for_workers(self._known, on_wait=self._wait)
        if not chosen:
            why = describe(self.cluster.look().values())
            advice = "start some and try again" if why == NO_WORKERS else "run the same again"
            raise ClusterLostError(f"{why}; {advice}")
        return chosen

    def _known(self, workers: dict[str, WorkerState]) -> list[str]:
        """Those of the workers that have said that they bring memory."""
        if new := [address for address in workers if address not in self._brought]:
            from ooc_graph.runtime.worker_memory import memory_brought  # noqa: PLC0415

            on_host = Counter(state.host for state in self.cluster.look().values())
            self._brought |= self.cluster.asked(memory_brought, dict(on_host), of=new)
        known = [address for address in workers if address in self._brought]
        for address in known:
            if (version := self._brought[address].version) != __version__:
                raise UsageError(
                    f"worker {address} has ooc_graph {version}, this process has {__version__}: "
                    "install the same version there"
                )
        enough = [address for address in known if not self._brought[address].why]
        if known and not enough:
            raise MemoryBudgetError(self._brought[known[0]].why)
        return enough

    def _wait(self, why: str) -> None:
        """Say that nobody can work, and have what keeps workers paused released."""
        self.note(f"{why}; waiting for a worker")
        self.release()

    def _limit(self, address: str) -> int:
        """Memory that a search may use of a worker."""
        brought = self._brought[address]
        if self._given is None:
            return brought.available_bytes
        share = self._given // self._at_first
        return min(share, brought.available_bytes) if brought.is_limit else share

    def _rank(self, address: str) -> tuple[int, str]:
        """Order in which workers are chosen; one that has just come is the last."""
        return (self._limit(address) if address in self._brought else -1), address

    def release(self) -> None:
        """Have every worker forget what it keeps between searches, unless it is at one."""
        self.cluster.ask(engine_cache.release_idle)

    @contextmanager
    def workforce(self) -> Iterator[Workforce]:
        """All threads of all workers."""
        workers = self._workers()
        slots = sum(worker.threads for worker in workers.values())
        # Workers may have come or gone since the limit was taken.
        limit_bytes = sum(map(self._limit, workers))
        budget = BuildBudget(min(limit_bytes, self._given or limit_bytes), len(workers), slots)
        tasks = self._tasks
        try:
            yield Workforce(tasks, budget, self._everywhere, True, tasks.check, tasks.is_quiet)
        finally:
            tasks.cancel_all()

    def _everywhere(self, function: Callable[[], None]) -> None:
        if not self.cluster.is_closed:
            self.cluster.ask(function)

    def call(self, function: Callable[..., Done], *arguments: Any) -> Done:
        """Run it as one task on the worker with the most memory."""
        done: Done = self._tasks.result(self._sent((function, *arguments)))
        return done

    def call_leaving(self, describe: Callable[..., Any], most_bytes: int, *call: Any) -> Any:
        """As `call`, but the outcome may stay on its worker: see `Outcomes.said`.

        Before it, the oldest outcomes are fetched until at most ``most_bytes`` are on workers.
        """
        from ooc_graph.exchange.left import Left  # noqa: PLC0415 (imports Dask)

        Left.bring_oldest(self.client, most_bytes)
        return self._tasks.result(self._sent(call, describe))

    def _sent(self, call: tuple[Any, ...], describe: Callable[..., Any] | None = None) -> Any:
        from dask.utils import funcname  # noqa: PLC0415

        def choose(workers: Collection[WorkerState]) -> str:
            return max((worker.address for worker in workers), key=self._rank)

        given = process.without_traceback, *call
        what = next(one for one in given if one is not process.without_traceback)
        return self._tasks.submit_to(choose, *given, called=funcname(what), describe=describe)


Workplace: TypeAlias = ThisProcess | OnCluster
"""Runs tasks; ``client`` is None if there is no cluster."""


def workplace_for(
    client: Client | None,
    limit_bytes: int | None,
    wanted: str = AUTO,
    cuda_limits: CudaLimits = NO_LIMITS,
    progress: Progress | None = None,
) -> Workplace:
    """A client's cluster, or this process, with the device ``wanted``.

    What a call leaves open is as Dask's configuration has it, under ``ooc-graph``.
    ``progress`` gets a line if a worker cannot continue; None: the log ``ooc_graph``.
    UsageError if ``client`` is no synchronous Dask client.
    """
    open_or_given = configured(limit_bytes, wanted, cuda_limits)
    if client is None:
        return ThisProcess(*open_or_given)
    require_client(client)
    note = LOG.warning if progress is None else progress.note
    return OnCluster(client, *open_or_given, note)


def client_meant(client: Client | Literal[False] | None) -> Client | None:
    """The client of a call, which means the current one by None, and this process by False.

    A task on a worker means its own process, as whatever client is current there is another's.
    Nobody has a current client who has not imported ``distributed``.
    """
    current = getattr(sys.modules.get("distributed"), "default_client", None)
    if client is None and current is not None and process.dask_worker() is None:
        with suppress(ValueError):
            client = current()
        if client and (
            client.asynchronous or client.status in ("closing", "closed") or is_parents(client)
        ):
            client = None
    return None if client is False else client


def require_client(client: object) -> None:
    """Refuse what is no synchronous Dask client, with a UsageError."""
    from distributed import Client  # noqa: PLC0415 (a run without a cluster needs no Dask)

    if not isinstance(client, Client):
        raise UsageError(
            f"client: give a dask.distributed.Client, not {type(client).__name__}; of a cluster or "
            "a scheduler's address make one with Client(...)"
        )
    require_own_client(client)
    if client.asynchronous:
        raise UsageError("client: give a synchronous Dask client (asynchronous=False)")
