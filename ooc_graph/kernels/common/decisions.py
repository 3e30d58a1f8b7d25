"""Decisions of searches on the CPU, of ranks on any device, and of CUDA out of the store.

BFS on a CUDA device that has its rows, and batches of many sources, have rules of their own
(docs/explanation/benchmarks/performance.md, "Push and pull").

No implementation here, and no numba, for `traverse` imports this module. The decision functions are
plain Python on plain numbers; the CPU's fused loops compile the very same functions. What a device
offers to the algorithms stands in `ooc_graph.kernels.common.device`, and what was tuned in
`ooc_graph.kernels.common.tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.common.tuning import (
    ENOUGH_PUSHED,
    FEW_LONGER,
    FIRST_STEP,
    HEAD_SHARE,
    LIST_ARCS,
    PULL_ABOVE,
    PUSH_BELOW,
    SHORT_ROW,
    TEAM_ARCS,
    WEIGHT_SPREAD,
)
from ooc_graph.types import AnyArray

PUSH, PULL = 0, 1


def choose_direction(
    direction: int, frontier: int, frontier_arcs: int, unvisited_arcs: int, vertices: int
) -> int:
    """Direction of the next level of a BFS, from what was measured on the way [1].

    ``direction`` is that of the level that found the frontier; ``frontier`` counts vertices, and
    ``unvisited_arcs`` the out-arcs of all vertices not visited yet.

    [1] S. Beamer, K. Asanovic, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.
    The thresholds there are 14 and 24.
    """
    is_wide = frontier * PUSH_BELOW > vertices
    if direction == PULL:
        return PULL if is_wide else PUSH
    # A pull looks at vertices, too; they are many beside few arcs.
    looked_at = unvisited_arcs if is_wide else unvisited_arcs + vertices
    return PULL if frontier_arcs * PULL_ABOVE > looked_at else PUSH


def rows_are_short(widest_out: int, widest_in: int) -> bool:
    """Tell whether a BFS should start from a list on one thread.

    True of road networks and meshes. A list spends nothing on a level but its frontier and its
    arcs, and reads rows to their ends; of a hub that could be a long row for one parent.
    """
    return max(widest_out, widest_in) <= SHORT_ROW


FIXED_ARCS = 4
"""Arcs of a row that has a fixed slot."""
FIXED_ROW_BYTES = 16
"""Memory of a fixed slot."""
FIXED_ID_BITS = 29
"""Ids of at most so many bits leave bits in a fixed slot for the number of arcs."""


def may_fix_rows(rows: int, arcs: int) -> bool:
    """Tell whether a graph may get fixed slots for its short rows, in one direction."""
    return arcs <= FIXED_ARCS * rows and rows <= 1 << FIXED_ID_BITS


def fixed_rows_pay(rows: int, arcs: int, longer: int) -> bool:
    """Tell whether a list reads rows of at most `FIXED_ARCS` arcs from fixed slots.

    Of all rows of one direction, ``longer`` ones have more arcs.
    """
    return may_fix_rows(rows, arcs) and longer * FEW_LONGER <= rows


def stays_listed(direction: int, frontier_arcs: int) -> bool:
    """Tell whether a frontier is so small that one thread continues from a list.

    True while `choose_direction` says push, and a team would have too little to share out. An
    upper bound of the frontier's arcs, taken off the unvisited ones, will do for both functions:
    where that many arcs are pushed from a list, so are fewer.
    """
    return direction == PUSH and frontier_arcs <= LIST_ARCS


def team_pays(vertices: int, arcs: int) -> bool:
    """Tell whether a BFS takes long enough to wake the other threads for it."""
    return vertices + arcs >= TEAM_ARCS


def push_is_enough(examined: int, arcs: int) -> bool:
    """Tell whether pushing has settled the hub core, so that pulling is cheaper from here."""
    return examined * ENOUGH_PUSHED >= arcs


def pull_pays(head_share: float, spread_share: float) -> bool:
    """Tell whether SSSP should pull at all on a graph; otherwise it pushes, or goes by near-far.

    Pulling stops early where hubs hold much of the graph, so that their mutual distances are
    tiny, and where the arcs of a row differ in weight. Neither holds for road networks, the
    second not for integer weights with heavy ties. ``head_share`` of the input tuples are at the
    first 1 % of the rows; ``spread_share`` of these rows have a middle arc that weighs at least
    `WEIGHT_SPREAD` times the lightest.
    """
    return hubs_are_large(head_share) and spread_share * 2 >= 1


def hubs_are_large(head_share: float) -> bool:
    """Tell whether so large a share of the input tuples lies at hubs, the first 1 % of the rows."""
    return head_share >= HEAD_SHARE


def first_step(lightest: float, typical: float) -> float:
    """First step of the bound, from the hubs' median lightest and middle arc; it adapts."""
    return lightest * FIRST_STEP or typical / WEIGHT_SPREAD or 1.0


def adapt_step(step: float, examined: int, again: int) -> float:
    """How far the bound rises next time: a delta that follows the graph.

    Too large a step shows in vertices improved ``again`` after they had been reached, of the
    arcs ``examined``; where there are few, the step was smaller than it could be.
    """
    if again * 4 > examined:
        return step / 2
    if again * 16 < examined:
        return step + step
    return step


def finish_by_push(changed_arcs: int, pulled_arcs: int, rows: int) -> bool:
    """Tell whether pushing from what the last pull pass changed beats another pass.

    A pass looks at every row, in order; a pushed arc is a random access.
    """
    return changed_arcs * 2 <= pulled_arcs + rows


def last_bound(reached: int, may_overflow: bool, farthest: Any, unreached: Any) -> Any:
    """Up to which distance to push what the last pull pass changed.

    If that pass reached no new vertex, no later one does, and nothing beyond the farthest distance
    is of use. That is not so if a path may be too long: a vertex that is left unreached because a
    sum overflowed may be reached later, by a smaller sum.
    """
    return unreached if reached or may_overflow else farthest


class Answer:
    """What a search has found: arrays that are its own and change with its next run."""

    def copy(self) -> Self:
        """Same answer in arrays to keep."""
        arrays = {k: v.copy() for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return replace(self, **arrays)  # type: ignore[type-var]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in vars(self).values() if isinstance(one, np.ndarray))


@dataclass(frozen=True)
class BfsTree(Answer):
    """Answer of a BFS on the rows of one rank, in host memory.

    ``parent``, uint32 or uint64 (rows,): internal ids; all ones where unreached, the root its own.
    ``level``, int32 (rows,): hops from the root, -1 where unreached. ``elapsed_s`` is of the search
    alone; 0.0 where an exchange did the timing. ``level_vertices``, ``level_arcs`` and
    ``level_direction``, int64, int64 and int8 (levels,): vertices in the frontier of each level,
    arcs examined to find the next one, and `PUSH` or `PULL`.
    """

    parent: AnyArray
    level: NDArray[np.int32]
    elapsed_s: float
    level_vertices: NDArray[np.int64]
    level_arcs: NDArray[np.int64]
    level_direction: NDArray[np.int8]


@dataclass(frozen=True)
class SsspTree(Answer):
    """Answer of an SSSP on the rows of one rank, in host memory.

    ``parent`` and ``elapsed_s`` are as of `BfsTree`. ``distance``, float32, float64 or int64
    (rows,): +inf or `INT64_UNREACHED` where unreached. ``phase_arcs``: arcs examined by ``push``,
    ``pull``, ``finish`` (the push after pulling) and ``parents``.
    """

    parent: AnyArray
    distance: AnyArray
    elapsed_s: float
    phase_arcs: dict[str, int]
