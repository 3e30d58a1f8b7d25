"""Dask's configuration as workers of this package need it."""

from __future__ import annotations

from typing import Any

from ooc_graph.runtime.machine import KEPT_BYTES


def dask_config() -> dict[str, Any]:
    """Dask's configuration for workers of this package.

    It must be set where workers start, before they do. Local clusters have it already.

    Returns
    -------
    Values by dotted key, new with each call, as ``dask.config.set`` accepts them. They can be
    written as YAML.
    """
    return {
        # Workers measure their own budgets: Dask's limits would only kill them a second time.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        # A hundred times a second the event loop would take the lock that ranks need, to find them
        # in a kernel.
        "distributed.worker.profile.enabled": False,
        # Fifty times a second each event loop would see whether it is late.
        "distributed.admin.tick.interval": "500ms",
        "distributed.scheduler.worker-saturation": float("inf"),
        "distributed.scheduler.preload": ["ooc_graph.runtime.scheduler_preload"],
        # How long it keeps what it did for a client that has left.
        "distributed.scheduler.events-cleanup-delay": "10s",
        # What workers and the scheduler keep for those who look: lines of a log, of which each task
        # has two; events and messages; samples, two a second. Else they grow for an hour.
        "distributed.admin.log-length": 200,
        "distributed.admin.low-level-log-length": 100,
        "distributed.admin.system-monitor.log-length": 240,
        "distributed.admin.large-graph-warning-threshold": "1GB",
        # So long after the end of a worker Dask looks once more, and if that worker is just then
        # starting again, because it ended twice, nobody starts it any more.
        "distributed.deploy.lost-worker-timeout": "365 days",
        "distributed.nanny.pre-spawn-environ": {
            # Small allocations go back to the system at once, so that what was freed is not counted
            # as in use.
            "MALLOC_TRIM_THRESHOLD_": KEPT_BYTES,
            "MALLOC_MMAP_THRESHOLD_": KEPT_BYTES,
            # Kernels have threads of their own.
            "OMP_NUM_THREADS": 1,
            "MKL_NUM_THREADS": 1,
            "OPENBLAS_NUM_THREADS": 1,
        },
    }
