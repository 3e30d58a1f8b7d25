"""Sums of distances and weights inside kernels on the host, in the distances' own arithmetic."""

from __future__ import annotations

from typing import Any

from ooc_graph.kernels.common.compiled import kernel, subroutine


@subroutine
def path_sum(distance: Any, weight: Any, top: Any) -> Any:
    """Length of a path one arc longer, in the distances' own arithmetic; ``top`` on overflow."""
    # Looking at the sum for a wrapped sign would not do: the compiler may assume there is none.
    if weight > top - distance:
        return top
    return distance + weight


@kernel
def raised(scratch: Any, smallest: Any, step: float, top: Any) -> Any:
    """Bound ``step`` above the smallest candidate, in the distances' dtype, not below it."""
    total = smallest + step
    if total >= top:
        return top
    scratch[0] = total
    return max(smallest, scratch[0])
