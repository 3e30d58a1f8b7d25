"""What one engine, which has the whole graph, does of a search."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.wanted import Wanted
from ooc_graph.model.engine import Engine
from ooc_graph.model.resources import CPU
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.runtime import engine_cache


def found_by(engine: Engine, task: SearchTask) -> Any:
    """What the engine's search finds, by internal id; it ends early if it can.

    Whatever it finds beyond what is wanted counts as unreached (`Within`).
    """
    root, within = internal_root(engine, task.root), task.request.within
    if within is None or not getattr(engine.search, "ends_early", False):
        return engine.search.run(*root)
    wanted = Wanted()
    if within.cutoff is not None:
        wanted = replace(wanted, most=int(min(within.cutoff, len(engine.ids.original_of))))
    if within.targets is not None:
        rows = engine.ids.internal_of[within.targets].astype(np.int64)
        # One without arcs is never reached: then the others are no reason to end.
        if (rows >= 0).all():
            wanted = replace(wanted, targets=rows)
    return engine.search.run(*root, wanted)


def by_device(engine: Engine, task: SearchTask) -> Written | None:
    """The answer if the device makes its columns."""
    if task.strategy.device == CPU or task.root is None or not task.is_for_memory:
        return None
    from ooc_graph.sinks import device_columns  # noqa: PLC0415

    if task.request.on_device:
        return device_columns.search(engine, task.root)
    # Without a limit just try: asking the device for its free memory takes as long as a search, and
    # the caller's own arrays must not count as ours.
    is_limited = task.capacity.device_bytes is not None
    device_bytes = engine_cache.reserved_device_bytes() if is_limited else sys.maxsize
    return device_columns.in_host_memory(engine, task.root, device_bytes)


def internal_root(engine: Engine, root: int | None) -> tuple[int, ...]:
    """The internal id to search from, if a search has a root."""
    if root is None:
        return ()
    return (int(engine.ids.internal_of[engine.graph.position_of(root)]),)
