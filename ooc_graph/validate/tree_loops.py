"""Compiled loops over the tree arcs of a batch (`tree_arcs.TreeArcs`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ooc_graph.kernel_cache import compiled, small_part
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray, IntArray

Arcs = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
"""Arrays of a `TreeArcs`: ``ends, parent, members, pending``."""
RANGE_BITS = 16
RANGE = 1 << RANGE_BITS
"""Vertices that a thread looks at before it takes others; their arcs stand together."""
CONFIRMED = -2
"""Less a parent's position: the arc is a tuple, in one answer alone."""

_U = np.uint64
_NONE, _ONE = _U(0), _U(1)
_WORD_BITS = 64


@compiled
def merge_parents(
    positions: AnyArray,
    answer: int,
    before: tuple[AnyArray, AnyArray, AnyArray],
    ends: AnyArray,
    parent: AnyArray,
    members: AnyArray,
) -> None:
    """Write the arcs of a range, those ``before`` and those of more answers.

    ``positions`` (n, vertices) are the parents of answers ``answer``, ...; -1 for none. ``before``,
    what the other three held, and these, are as in `TreeArcs`.
    """
    old_ends, old_parent, old_members = before
    count, old = np.int64(0), np.int64(0)
    for v in range(positions.shape[1]):
        begin = count
        while old < old_ends[v]:
            parent[count], members[count] = old_parent[old], old_members[old]
            count += 1
            old += 1
        at, bits = begin, _NONE  # of the last parent, noted when there comes another
        for i in range(len(positions)):
            above = positions[i, v]
            if above >= 0:
                if at == count or parent[at] != above:
                    if bits:
                        members[at] |= members.dtype.type(bits)
                    at, bits = begin, _NONE
                    while at < count and parent[at] != above:
                        at += 1
                    if at == count:
                        parent[at], members[at] = above, 0
                        count += 1
                bits |= _ONE << _U(answer + i)
        if bits:
            members[at] |= members.dtype.type(bits)
        ends[v] = count


@small_part
def first_arc(ends: AnyArray, v: Any) -> Any:
    """Where the arcs to a vertex begin in their row."""
    return np.int64(0) if v & (RANGE - 1) == 0 else np.int64(ends[v - 1])


@small_part
def find_arc(arcs: Arcs, u: Any, v: Any) -> Any:
    """Where tree arc (u, v) is in its row, -1 if no answer has it, or one alone no longer."""
    ends, parent, _, _ = arcs
    if len(ends) == 0:
        return np.int64(v) if parent[0, v] == parent.dtype.type(u) else np.int64(-1)
    row = v >> RANGE_BITS
    for e in range(first_arc(ends, v), ends[v]):
        if parent[row, e] == parent.dtype.type(u):
            return np.int64(e)
    return np.int64(-1)


@small_part
def pending_in(arcs: Arcs, v: Any, at: Any) -> Any:
    """Bits of the answers in which the arc to v that `find_arc` found is not confirmed."""
    ends, _, _, pending = arcs
    return _ONE if len(ends) == 0 else _U(pending[v >> RANGE_BITS, at])


def _clearing(typing_context: Any, words: Any, at: Any, bits: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        word = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
        kept = builder.not_(args[2])
        if kind.dtype.bitwidth < _WORD_BITS:
            kept = builder.trunc(kept, ir.IntType(kind.dtype.bitwidth))
        builder.atomic_rmw("and", word, kept, "monotonic")
        return context.get_dummy_value()

    return types.void(words, types.intp, types.uint64), generate


_clear: Any = intrinsic(_clearing)
"""``_clear(words, at, bits)``: clear bits of a word, also while other threads clear others."""


@small_part
def confirm(arcs: Arcs, u: Any, v: Any, at: Any, bits: Any) -> None:
    """Note that the tree arc that `find_arc` found is a tuple, for the answers in ``bits``."""
    ends, parent, _, pending = arcs
    if len(ends) == 0:
        parent[0, v] = CONFIRMED - parent.dtype.type(u)
    else:
        _clear(pending[v >> RANGE_BITS], at, bits)


@small_part
def ask_for_arcs(arcs: Arcs, v: Any, is_near: bool) -> None:
    """Ask memory for the arcs to a vertex that is looked at soon; first for where they are."""
    ends, parent, _, pending = arcs
    if len(ends) == 0:
        prefetch(parent[0], v)
    elif is_near:
        at, row = first_arc(ends, v), v >> RANGE_BITS
        prefetch(parent[row], at)
        prefetch(pending[row], at)
    else:
        prefetch(ends, v)


@compiled
def parent_in(arcs: Arcs, v: int, answer: int) -> int:
    """Position of a parent, confirmed or not, -1 if there is none."""
    ends, parent, members, _ = arcs
    if len(ends) == 0:
        above = np.int64(parent[0, v])
        return int(CONFIRMED - above if above < -1 else above)
    row = v >> RANGE_BITS
    for e in range(first_arc(ends, v), ends[v]):
        if _U(members[row, e]) >> _U(answer) & _ONE:
            return int(parent[row, e])
    return -1


@compiled
def first_pending(arcs: Arcs, first: IntArray) -> None:
    """Write the smallest vertex of each answer whose tree arc no tuple has confirmed.

    ``first``, int64 (k,), is -1 at entry, and stays so if there is none.
    """
    ends, parent, _, pending = arcs
    for v in range(len(ends)):
        for e in range(first_arc(ends, v), ends[v]):
            bits = _U(pending[v >> RANGE_BITS, e])
            for answer in range(len(first) if bits else 0):
                if bits >> _U(answer) & _ONE and first[answer] < 0:
                    first[answer] = v
    if len(ends) == 0:
        for v in range(parent.shape[1]):
            if parent[0, v] >= 0:
                first[0] = v
                break
