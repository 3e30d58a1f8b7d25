"""Memory of a Dask worker for searches: less than that at which Dask spills, pauses or kills it.

Dask compares the resident memory of the worker's process with fractions of its limit
(``distributed.worker.memory.spill``, ``pause`` and ``terminate``). A paused worker begins no task
until its memory falls, which rows that are kept for the next search would prevent for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import dask
from distributed.comm.addressing import get_address_host
from tornado.ioloop import PeriodicCallback

from ooc_graph import __version__
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.leftovers import clear_leftovers
from ooc_graph.runtime.machine import default_limit_bytes, give_back_freed_memory

# Where Dask has no thresholds: the limit may be that of a control group.
_WITHOUT_THRESHOLDS = 0.95
# Of Python, Dask, numba and compiled kernels. In steps, so that a budget, and with it the rows that
# are kept, stays the same from call to call.
_PROCESS_BYTES, _STEP_BYTES = 256 << 20, 64 << 20
# With less no search of any size begins.
_LEAST_BYTES = 16 << 20
# Parts of the threshold that are left free, and at which what is kept is given back.
_SPARE, _NEAR = 0.05, 0.97

_bare_bytes = 0


class Brought(NamedTuple):
    """Memory that a worker brings for searches and builds.

    ``is_limit``: Dask has a limit for the worker, which no other may exceed. ``why`` says why
    nothing is available, ``version`` is that of this package as the worker has it.
    """

    available_bytes: int
    is_limit: bool
    why: str = ""
    version: str = __version__


def memory_brought(workers_on: Mapping[str, int], dask_worker: Any) -> Brought:
    """Memory of a worker for searches; asked of it, on its event loop.

    From then on the worker clears what tasks leave while it is idle, and gives back what searches
    keep if its memory nears a threshold. Workers on one host share what is free there if they have
    no limits.
    """
    # Dask leaves garbage each time that it waits for something to send.
    _repeat(dask_worker, "ooc-graph-leftovers", partial(_clear_leftovers, dask_worker), 2_000)
    limit_bytes = dask_worker.memory_manager.memory_limit
    if not limit_bytes:
        sharing = workers_on.get(get_address_host(dask_worker.address), 1)
        return Brought(default_limit_bytes() // sharing, is_limit=False)
    threshold_bytes = int(limit_bytes * _lowest_threshold(dask_worker))
    near_bytes = int(threshold_bytes * _NEAR)
    _repeat(dask_worker, "ooc-graph-memory", partial(_release_near, dask_worker, near_bytes), 500)
    taken_bytes = _taken_bytes(dask_worker)
    available_bytes = int(threshold_bytes * (1 - _SPARE)) - taken_bytes
    if available_bytes >= _LEAST_BYTES:
        return Brought(available_bytes, is_limit=True)
    least_bytes = (taken_bytes + _LEAST_BYTES) / (1 - _SPARE) * limit_bytes / threshold_bytes
    return Brought(
        0,
        is_limit=True,
        why=f"worker {dask_worker.address} has a memory limit of {limit_bytes:,} bytes; Dask steps "
        f"in at {threshold_bytes:,}, and its process takes {taken_bytes:,} before any search: give "
        f"it a limit of {int(least_bytes):,} bytes or more",
    )


def _lowest_threshold(worker: Any) -> float:
    manager = worker.memory_manager
    thresholds: list[float] = [
        manager.memory_spill_fraction,
        manager.memory_pause_fraction,
        # The nanny's, whose configuration its worker has as well.
        dask.config.get("distributed.worker.memory.terminate"),
    ]
    return min(filter(None, thresholds), default=_WITHOUT_THRESHOLDS)


def _taken_bytes(worker: Any) -> int:
    """What the process had when it last was at no task and kept nothing for searches."""
    global _bare_bytes  # noqa: PLW0603 -- of the process, as its memory is
    if _is_idle(worker) and not engine_cache.keeps_any():
        give_back_freed_memory()
        _bare_bytes = worker.monitor.get_process_memory()
    return max(_PROCESS_BYTES, -(-_bare_bytes // _STEP_BYTES) * _STEP_BYTES)


def _is_idle(worker: Any) -> bool:
    return not worker.state.executing and not worker.state.long_running


def _repeat(worker: Any, name: str, call: Callable[[], None], every_ms: int) -> None:
    """Call it on the worker's event loop from now on, unless that has begun already."""
    if name not in worker.periodic_callbacks:
        callback = PeriodicCallback(call, every_ms)
        worker.periodic_callbacks[name] = callback
        callback.start()


def _clear_leftovers(worker: Any) -> None:
    if _is_idle(worker):
        clear_leftovers()


def _release_near(worker: Any, near_bytes: int) -> None:
    is_near = worker.monitor.get_process_memory() > near_bytes
    if is_near and engine_cache.keeps_any():
        engine_cache.release_idle()
