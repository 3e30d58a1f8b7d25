"""Where work is done: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ooc_graph import __version__
from ooc_graph.errors import ClusterLostError, MemoryBudgetError, UsageError
from ooc_graph.forked import require_own_client
from ooc_graph.model.resources import (
    AUTO,
    CPU,
    CUDA,
    NO_LIMITS,
    CudaLimits,
    Device,
    Resources,
    require_name,
)
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.devices import choose_in_process, choose_on_workers
from ooc_graph.runtime.machine import default_limit_bytes, return_freed_memory
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.threads import Threads, cores
from ooc_graph.types import Progress

if TYPE_CHECKING:
    from distributed import Client

    from ooc_graph.exchange.worker_states import WorkerState
    from ooc_graph.runtime.worker_memory import Brought

Done = TypeVar("Done")

_log = logging.getLogger("ooc_graph")


class ThisProcess:
    """The calling process and all its cores; no cluster, no port."""

    client = None
    note = staticmethod(_log.warning)

    def __init__(
        self,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
    ) -> None:
        require_name(wanted)
        self.wanted, self.cuda_limits = wanted, cuda_limits
        self._limit_bytes = limit_bytes
        self.is_limited = limit_bytes is not None

    @property
    def limit_bytes(self) -> int:
        """The limit, or what is free now; 0 if a control group has nothing left."""
        return default_limit_bytes() if self._limit_bytes is None else self._limit_bytes

    @cached_property
    def device(self) -> Device:
        """Device of this process; looked for when it is first asked for."""
        return self.cuda_limits.within(choose_in_process(self.wanted))

    def resources(self, *, on_cpu: bool = False) -> Resources:
        """What this process brings now; ``on_cpu``: no device is looked for."""
        limit_bytes = self.limit_bytes
        return Resources(
            self.wanted,
            Device(CPU) if on_cpu else self.device,
            self.cuda_limits,
            limit_bytes=limit_bytes,
            process_limit_bytes=limit_bytes,
            least_limit_bytes=limit_bytes,
            is_limited=self.is_limited,
            processes=1,
            threads=cores(),
            has_ranks=False,
            has_client=False,
        )

    def release(self) -> None:
        """Forget what searches keep in this process."""
        engine_cache.release()

    @contextmanager
    def workforce(self) -> Iterator[Workforce]:
        """Threads, one for each core."""
        return_freed_memory()
        with Threads(cores(), thread_name_prefix="ooc-graph") as executor:
            budget = BuildBudget(self.limit_bytes, 1, cores())
            yield Workforce(executor, budget, lambda function: function())

    def call(self, function: Callable[..., Done], *arguments: Any) -> Done:
        """Call it."""
        return function(*arguments)


def planned(limit_bytes: int, name: str = CPU, cuda_limits: CudaLimits = NO_LIMITS) -> Resources:
    """What one process with so much host memory would bring to a search, to ask what it would do.

    Of a CUDA device whose memory is given there need be none; else DeviceError.
    """
    device = Device(name, cuda_limits.device_bytes or 0)
    if name == CUDA and cuda_limits.device_bytes is None:
        device = choose_in_process(CUDA)
    offered = ThisProcess(limit_bytes, name, cuda_limits).resources(on_cpu=True)
    # A command may start ranks on workers of the CPU.
    return replace(offered, device=device, has_ranks=name == CPU)


class OnCluster:
    """Workers of a Dask cluster; ``note`` gets one line if a worker cannot continue.

    ``limit_bytes`` is for all workers together; None: what the workers bring. ClusterLostError says
    that no worker can work within the patience, MemoryBudgetError that Dask's limits leave none any
    memory for a search.
    """

    def __init__(
        self,
        client: Client,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
        note: Callable[[str], None] = _log.warning,
    ) -> None:
        # Imported here: a run without a cluster needs no Dask.
        from ooc_graph.exchange.cluster import Cluster  # noqa: PLC0415
        from ooc_graph.exchange.tasks import Tasks  # noqa: PLC0415

        require_name(wanted)
        self.wanted, self.cuda_limits = wanted, cuda_limits
        self.client: Client = client
        self.cluster = Cluster.of(client)
        self.note = note
        self._tasks = Tasks(self.cluster, note)
        self._brought: dict[str, Brought] = {}
        self._share: int | None = None
        workers = self._workers()
        if limit_bytes is not None:
            self._share = limit_bytes // max(len(self.cluster.look()), len(workers))
        self.limit_bytes = sum(self._limits(workers))

    @cached_property
    def device(self) -> Device:
        """CUDA if every worker has a device that can be used."""
        return self.cuda_limits.within(choose_on_workers(self.wanted, self.cluster.ask))

    def resources(self, *, on_cpu: bool = False) -> Resources:
        """What the workers bring that can work now; ``on_cpu``: no device is looked for."""
        workers = self._workers()
        limits = self._limits(workers)
        return Resources(
            self.wanted,
            Device(CPU) if on_cpu else self.device,
            self.cuda_limits,
            limit_bytes=self.limit_bytes,
            process_limit_bytes=max(limits),
            least_limit_bytes=min(limits),
            is_limited=True,
            processes=len(workers),
            threads=min(worker.threads for worker in workers.values()),
            has_ranks=True,
            has_client=True,
        )

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
            self._brought |= self.cluster.ask(memory_brought, dict(on_host), of=new)
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

    def _limits(self, workers: Iterable[str]) -> list[int]:
        return [self._limit(address) for address in workers]

    def _limit(self, address: str) -> int:
        """Memory that a search may use of a worker."""
        brought, share = self._brought[address], self._share
        if share is None:
            return brought.available_bytes
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
        budget = BuildBudget(self.limit_bytes, len(workers), slots)
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

        def choose(workers: Collection[WorkerState]) -> str:
            return max((worker.address for worker in workers), key=self._rank)

        given = process.without_traceback, function, *arguments
        done: Done = self._tasks.result(self._tasks.submit_to(choose, *given))
        return done
        return done


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

    ``progress`` takes a line if a worker of the cluster cannot go on; None: the log ``ooc_graph``.
    UsageError if ``client`` is no synchronous Dask client.
    """
    if client is None:
        return ThisProcess(limit_bytes, wanted, cuda_limits)
    require_client(client)
    note = _log.warning if progress is None else progress.note
    return OnCluster(client, limit_bytes, wanted, cuda_limits, note)


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
