"""How a search went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Trace:
    """How a search went."""

    elapsed_s: float  # the search alone
    # (vertices, arcs examined, direction) per level or phase.
    levels: tuple[tuple[int | None, int, str], ...]


def trace_of(kernel: str, found: Any) -> Trace:
    """Trace of what a device found."""
    if kernel != "bfs":
        phases = tuple((None, arcs, phase) for phase, arcs in found.phase_arcs.items())
        return Trace(found.elapsed_s, phases)
    columns = (found.level_vertices, found.level_arcs, found.level_direction)
    levels = zip(*(column.tolist() for column in columns), strict=True)
    steps = ((count, arcs, "pull" if is_pull else "push") for count, arcs, is_pull in levels)
    return Trace(found.elapsed_s, tuple(steps))


def slowest(traces: Sequence[Trace]) -> Trace:
    """Trace of all ranks, which agree on everything but the clock."""
    return replace(traces[0], elapsed_s=max(trace.elapsed_s for trace in traces))
