"""Where work is done: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.session import resident
from ooc_graph.session.devices import (
    AUTO,
    CPU,
    CUDA,
    CudaLimits,
    Device,
    choose_here,
    choose_on_workers,
    require_name,
)
from ooc_graph.session.machine import cores, default_limit_bytes, return_freed_memory
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import CHECK_S, POLL_S, Workforce
from ooc_graph.threads import Threads

if TYPE_CHECKING:
    from distributed import Client

Done = TypeVar("Done")

# A search takes its worker's memory for itself; the rest is the interpreter's.
_WORKER_SHARE = 0.9
_WORKER_WAIT_S = 60.0
NO_LIMITS = CudaLimits()


class Place(Protocol):
    """Runs tasks. ``client`` is None where there is no cluster."""

    @property
    def client(self) -> Client | None:
        """Client of the cluster."""

    @property
    def has_ranks(self) -> bool:
        """Whether many ranks can search, on workers."""

    @property
    def limit_bytes(self) -> int:
        """Memory of all processes together."""

    @property
    def is_limited(self) -> bool:
        """Whether the memory is a limit that somebody set, not what happens to be free."""

    @property
    def wanted(self) -> str:
        """Device that was asked for: ``auto``, ``cpu`` or ``cuda``."""

    @property
    def device(self) -> Device:
        """Device that all processes have; looked for when it is first asked for."""

    @property
    def cuda_limits(self) -> CudaLimits:
        """Memory that searches on CUDA devices may use."""

    @property
    def processes(self) -> int:
        """Worker processes."""

    def workforce(self) -> Any:
        """Context manager that gives a `Workforce` for a build."""

    @property
    def threads(self) -> int:
        """Threads that every process has."""

    @property
    def least_limit_bytes(self) -> int:
        """Memory that every process may use for a search."""

    def call(self, function: Callable[..., Done], *arguments: Any) -> Done:
        """Call a function where searches run: alone in one process, with all its threads."""

    def release(self) -> None:
        """Have every process forget what it keeps between searches."""

    @property
    def process_limit_bytes(self) -> int:
        """Memory that one process may use for a search."""


class Here:
    """The calling process and all its cores; no cluster, no port."""

    client = None
    has_ranks = False
    processes = 1

    def __init__(
        self,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
    ) -> None:
        require_name(wanted)
        self.wanted, self.cuda_limits = wanted, cuda_limits
        self.is_limited = limit_bytes is not None
        # 0 where a control group has nothing left.
        self.limit_bytes = default_limit_bytes() if limit_bytes is None else limit_bytes

    @cached_property
    def device(self) -> Device:
        """Device of this process."""
        return self.cuda_limits.within(choose_here(self.wanted))

    @property
    def process_limit_bytes(self) -> int:
        """Memory that a search may use."""
        return self.limit_bytes

    @property
    def least_limit_bytes(self) -> int:
        """Memory that a search may use."""
        return self.limit_bytes

    @property
    def threads(self) -> int:
        """Cores."""
        return cores()

    def release(self) -> None:
        """Forget what searches keep in this process."""
        resident.release()

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


class Planned(Here):
    """One worker that a command would start, to ask what it would do; nothing is done there."""

    has_ranks = True

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes, CPU)


class PlannedCuda(Here):
    """A process with a CUDA device, to ask what it would do; without one if its memory is given."""

    def __init__(self, limit_bytes: int, cuda_limits: CudaLimits) -> None:
        super().__init__(limit_bytes, CUDA, cuda_limits)

    @cached_property
    def device(self) -> Device:
        """The device that was described, or the one there is."""
        if self.cuda_limits.device_bytes is None:
            return choose_here(CUDA)
        return Device(CUDA, self.cuda_limits.device_bytes)


class OnCluster:
    """Workers of a Dask cluster.

    Parameters
    ----------
    client
        A synchronous client.
    limit_bytes
        For all workers together; None: what the workers bring.
    wanted
        Device that was asked for.
    cuda_limits
        Of each worker's device.
    """

    is_limited = True
    has_ranks = True

    def __init__(
        self,
        client: Client,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
    ) -> None:
        if client.asynchronous:
            raise UsageError("give a synchronous Dask client (asynchronous=False)")
        require_name(wanted)
        self.wanted, self.cuda_limits = wanted, cuda_limits
        self.client: Client = client
        self._patience_s = 0.0
        workers = self._workers()
        self._patience_s = _WORKER_WAIT_S
        self._limits = {
            address: _brought(worker) if limit_bytes is None else limit_bytes // len(workers)
            for address, worker in workers.items()
        }
        self.limit_bytes = sum(self._limits.values())

    @cached_property
    def device(self) -> Device:
        """CUDA where every worker has a device that can be used."""
        return self.cuda_limits.within(choose_on_workers(self.wanted, self.client))

    def _workers(self) -> dict[str, Any]:
        """Workers that there are; once there were some, none may mean that one restarts."""
        # Imported here: a run without a cluster needs no Dask.
        from ooc_graph.exchange.cluster import workers_of  # noqa: PLC0415

        begun = monotonic()
        while True:
            workers = workers_of(self.client)
            if workers:
                return workers
            if monotonic() - begun >= self._patience_s:
                raise ClusterLostError("the Dask cluster has no workers; start some and try again")
            sleep(POLL_S)

    @property
    def processes(self) -> int:
        """Workers that there are now."""
        return len(self._workers())

    @property
    def process_limit_bytes(self) -> int:
        """Memory of the worker that searches run on."""
        return max(self._limits.values())

    @property
    def least_limit_bytes(self) -> int:
        """Memory of the worker that has least."""
        return min(self._limits.values())

    @property
    def threads(self) -> int:
        """Threads that every worker has."""
        return min(int(worker["nthreads"]) for worker in self._workers().values())

    def release(self) -> None:
        """Have every worker forget what it keeps between searches."""
        self.client.run(resident.release_all)

    @contextmanager
    def workforce(self) -> Iterator[Workforce]:
        """All threads of all workers, through the client's executor."""
        # Imported here: a run without a cluster needs no Dask.
        from ooc_graph.session.task_executor import TaskExecutor  # noqa: PLC0415

        workers = self._workers()
        slots = sum(worker["nthreads"] for worker in workers.values())
        budget = BuildBudget(self.limit_bytes, len(workers), slots)
        executor = TaskExecutor(self.client)
        try:
            yield Workforce(
                executor, budget, self._everywhere, True, self._require_workers(), self._quiet
            )
        finally:
            # Nothing is at work any more; waiting would be for ever if all workers are lost.
            executor.shutdown(wait=False)  # type: ignore[no-untyped-call]

    def _require_workers(self) -> Callable[[], None]:
        """Check that raises after a minute without any worker (they may be restarting)."""
        from ooc_graph.exchange.cluster import workers_of  # noqa: PLC0415

        seen = [monotonic()]

        def check() -> None:
            if workers_of(self.client):
                seen[0] = monotonic()
            elif monotonic() - seen[0] > _WORKER_WAIT_S:
                raise ClusterLostError("all workers of the Dask cluster are gone; try again")

        return check

    def _everywhere(self, function: Callable[[], None]) -> None:
        if self.client.status == "running":
            self.client.run(function)

    def _quiet(self, names: Collection[str]) -> bool:
        """Whether no worker executes a task of one of these functions.

        To Dask a cancelled task is gone at once, while its thread goes on to the end.
        """
        if self.client.status != "running":
            return True
        executing = self.client.run(_executing).values()
        return not any(key.rpartition("-")[0] in names for keys in executing for key in keys)

    def call(self, function: Callable[..., Done], *arguments: Any) -> Done:
        """Run it as one task on the worker with the most memory."""
        workers = self._workers()
        chosen = max(workers, key=lambda address: (self._limits.get(address, 0), address))
        future = self.client.submit(
            function, *arguments, workers=[chosen], allow_other_workers=True, pure=False
        )
        check = self._require_workers()
        try:
            while True:
                try:
                    done: Done = future.result(timeout=CHECK_S)
                except TimeoutError:
                    if not future.done():
                        check()
                        continue
                    # It ended just now, or that was the task's own error.
                    done = future.result()
                return done
        finally:
            future.release()


def _executing(dask_worker: Any) -> list[str]:
    """Keys of what a worker's threads do now, cancelled or not."""
    return [str(task.key) for task in dask_worker.state.executing]


def _brought(worker: dict[str, Any]) -> int:
    """What a worker of somebody's cluster brings; without a limit of its own, this machine's."""
    return int((worker["memory_limit"] or default_limit_bytes()) * _WORKER_SHARE)


def place_for(
    client: Client | None,
    limit_bytes: int | None,
    wanted: str = AUTO,
    cuda_limits: CudaLimits = NO_LIMITS,
) -> Place:
    """Place to work at, a client's cluster or this process, on the device ``wanted``."""
    if client is None:
        return Here(limit_bytes, wanted, cuda_limits)
    return OnCluster(client, limit_bytes, wanted, cuda_limits)
