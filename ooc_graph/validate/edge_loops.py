"""Compiled passes over the edges: the rules that join two vertices, for up to 64 answers at once.

Ends of tuples are positions in the answers, none unknown. State is laid out [vertex][answer], so
that one edge touches two short rows whatever the number of answers. A bit of a uint64 stands for
an answer. Almost every edge of a right answer breaks nothing; so a row is first asked as a whole,
and looked at one by one only if it says yes. Each rule is a pass of its own over a block:
one loop for all of them is slower, since its helpers are then too large to be inlined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray

Bits = NDArray[np.uint64]

LEAVES, SPAN = 0, 1  # rows of ``broken``
ONE = np.uint64(1)
NONE = np.uint64(0)


@subroutine
def record(broken: IntArray, rule: int, answer: int, start: int, end: int) -> None:
    """Keep the smallest (start, end) for each rule and answer."""
    seen = broken[rule, answer, 0]
    if start < seen or (start == seen and end < broken[rule, answer, 1]):
        broken[rule, answer, 0] = start
        broken[rule, answer, 1] = end


@subroutine
def _record_bits(broken: IntArray, rule: int, bits: Any, start: int, end: int) -> None:
    for answer in range(broken.shape[1]):
        if bits >> np.uint64(answer) & ONE != NONE:
            record(broken, rule, answer, start, end)


@subroutine
def _count_bits(counts: IntArray, bits: Any) -> None:
    if bits != NONE:
        for answer in range(len(counts) - 1):
            counts[answer] += np.int64(bits >> np.uint64(answer) & ONE)


@compiled
def inside(
    source: AnyArray,
    target: AnyArray,
    directed: bool,
    reached: Bits,
    full: Any,
    counts: IntArray,
    broken: IntArray,
) -> None:
    """Count tuples between reached vertices and find arcs that leave them.

    ``source`` and ``target``, int32 or int64 (m,), are positions, as in all functions of this
    module. ``reached``, uint64 (V,), says which answers reach a vertex; ``full`` has the bits of
    all. ``counts``, int64 (k + 1,), are tuples inside each answer without self-loops, less those
    inside all (last entry). ``broken``, int64 (2, k, 2), has the smallest arc that breaks each
    rule; ``broken[0]`` is written.
    """
    answers = len(counts) - 1
    for e in range(len(source)):
        u, v = source[e], target[e]
        near, far = reached[u], reached[v]
        if near & far == full:
            counts[answers] += u != v
            continue
        if u != v:
            _count_bits(counts, near & far)
        if near & ~far != NONE:
            _record_bits(broken, LEAVES, near & ~far, u, v)
        if not directed and far & ~near != NONE:
            _record_bits(broken, LEAVES, far & ~near, v, u)


@subroutine
def _too_deep(words: Bits, slack: Any, sign: Any, u: int, v: int) -> bool:
    """Whether v lies more than one level below u in any answer.

    One subtraction compares all levels of a word: if every level is in 0 … slack, two less than a
    lane's top bit, ``v + slack - u`` has the top bit exactly if v - u >= 2.
    """
    bits = NONE
    for j in range(words.shape[1]):
        bits |= words[v, j] + slack - words[u, j]
    return bool(bits & sign != NONE)


@subroutine
def _too_far_apart(words: Bits, slack: Any, sign: Any, u: int, v: int) -> bool:
    """Whether the levels of u and v differ by more than one in any answer."""
    bits = NONE
    for j in range(words.shape[1]):
        near, far = words[u, j], words[v, j]
        bits |= (far + slack - near) | (near + slack - far)
    return bool(bits & sign != NONE)


@subroutine
def _record_levels(level: AnyArray, both: Any, u: int, v: int, broken: IntArray) -> None:
    for answer in range(broken.shape[1]):
        inside = both >> np.uint64(answer) & ONE != NONE
        if inside and level[v, answer] > level[u, answer] + 1:
            record(broken, SPAN, answer, u, v)


@compiled
def bfs_spans(
    source: AnyArray,
    target: AnyArray,
    directed: bool,
    level: AnyArray,
    words: Bits,
    slack: Any,
    sign: Any,
    reached: Bits,
    broken: IntArray,
) -> None:
    """Find arcs between reached vertices that go down by more than one level.

    ``level`` is uint8 or uint32 (V, at least k), rows a multiple of 8 bytes; unreached is the
    dtype's largest value halved, less one; reached levels are smaller. ``words`` is the same memory
    as uint64; ``slack`` and ``sign`` have in every lane the value for unreached, and the top bit.
    ``broken[1]`` is written; the others are as for `inside`.
    """
    for e in range(len(source)):
        u, v = source[e], target[e]
        if directed:
            if _too_deep(words, slack, sign, u, v):
                _record_levels(level, reached[u] & reached[v], u, v, broken)
        elif _too_far_apart(words, slack, sign, u, v):
            _record_levels(level, reached[u] & reached[v], u, v, broken)
            _record_levels(level, reached[u] & reached[v], v, u, broken)


@subroutine
def arc_of(offsets: IntArray, parents: AnyArray, parent: int, child: int) -> int:
    """Where tree arc (parent, child) stands in the table, -1 if no answer has it."""
    low, length = offsets[child], offsets[child + 1] - offsets[child]
    if length == 0:
        return -1
    while length > 1:
        half = length >> 1
        low += half if parents[low + half] <= parent else 0
        length -= half
    return int(low) if parents[low] == parent else -1


@compiled
def bfs_tree(
    source: AnyArray,
    target: AnyArray,
    directed: bool,
    offsets: IntArray,
    parents: AnyArray,
    pending: Bits,
) -> None:
    """Confirm the tree arcs (`loops.tree_arcs`) that are tuples: they lose their bits."""
    for e in range(len(source)):
        arc = arc_of(offsets, parents, source[e], target[e])
        if arc >= 0:
            pending[arc] = NONE
        if not directed:
            arc = arc_of(offsets, parents, target[e], source[e])
            if arc >= 0:
                pending[arc] = NONE
