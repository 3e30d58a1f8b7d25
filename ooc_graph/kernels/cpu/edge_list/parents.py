"""Parents from final distances over grouped edges.

The rules are those of `ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, drop, has, members_of
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.intrinsics import atomic_replace
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, LINE, atomic_add, atomic_umin, barrier
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, pieces_of

PARENTS_EXAMINED, UNRESOLVED, RESOLVED = (FIRST_FREE + k * LINE for k in range(3))
"""Words of the control array: edges read, vertices on plateaus, those that the last hop found."""
ABSORBED = 1024
"""A weight that a distance absorbs is less than one in this many of it, in any dtype."""


@subroutine
def _offer(field: Any, vertex: int, at: Any, rival: int) -> None:
    """Make ``rival``, at distance ``at``, the parent of ``vertex`` unless there is a better one."""
    parent, none = field.parent, field.parent.dtype.type(-1)
    while True:
        now = parent[vertex]
        if now != none:
            away = field.distance[np.int64(now)]
            if away < at or (away == at and np.int64(now) <= rival):
                return
        if atomic_replace(parent, vertex, now, rival) == now:
            return


@subroutine
def _offer_piece(edges: Any, piece: int, field: Any) -> None:
    tail_id, head_id = edges.base[edges.tail[piece]], edges.base[edges.head[piece]]
    tails, heads, top = field.distance[tail_id:], field.distance[head_id:], field.top[0]
    for index in range(edges.begin[piece], edges.begin[piece + 1]):
        tail, head = edges.ends[index] & LOW_END, edges.ends[index] >> HALF
        of_tail, of_head = tails[tail], heads[head]
        weight = tails.dtype.type(edges.weights[index])
        if of_tail < of_head:
            if of_head < top and of_tail + weight == of_head:
                _offer(field, np.int64(head_id + head), of_tail, np.int64(tail_id + tail))
        elif edges.undirected and of_head < of_tail < top and of_head + weight == of_tail:
            _offer(field, np.int64(tail_id + tail), of_head, np.int64(head_id + head))


@subroutine
def offer_part(control: Any, edges: Any, field: Any) -> None:
    """Offer the nearer end of every tight edge; all threads. Word `CHUNK` must begin as 0."""
    near, far, top, examined = field.near, field.far, field.top[0], 0
    for piece in pieces_of(control, edges):
        tail, head = edges.tail[piece], edges.head[piece]
        lightest = near.dtype.type(edges.lightest[piece])
        tight = near[tail] < top and near[tail] + lightest <= far[head]
        if edges.undirected and not tight:
            tight = near[head] < top and near[head] + lightest <= far[tail]
        if tight:
            examined += edges.begin[piece + 1] - edges.begin[piece]
            _offer_piece(edges, piece, field)
    atomic_add(control, PARENTS_EXAMINED, examined)


@subroutine
def gather_unresolved(thread: int, threads: int, control: Any, field: Any, root: int) -> None:
    """Note the reached vertices without a parent; all threads. The root is its own parent."""
    rows, words, top, left = len(field.parent), len(field.unresolved), field.top[0], 0
    none = field.parent.dtype.type(-1)
    for index in range(words * thread // threads, words * (thread + 1) // threads):
        bits = np.uint64(0)
        for vertex in range(index * WORD_BITS, min((index + 1) * WORD_BITS, rows)):
            if vertex == root:
                field.parent[vertex] = root
            elif field.parent[vertex] == none and field.distance[vertex] < top:
                bits |= ONE << np.uint64(vertex & 63)
                left += 1
        field.unresolved[index] = bits
    atomic_add(control, UNRESOLVED, left)
    if thread == 0:
        control[CHUNK] = 0


@subroutine
def _cross_piece(edges: Any, piece: int, field: Any) -> None:
    """Offer resolved ends of absorbed edges to ends that are not."""
    tail_id, head_id = edges.base[edges.tail[piece]], edges.base[edges.head[piece]]
    distance, unresolved, top = field.distance, field.unresolved, field.top[0]
    for index in range(edges.begin[piece], edges.begin[piece + 1]):
        tail = np.int64(tail_id + (edges.ends[index] & LOW_END))
        head = np.int64(head_id + (edges.ends[index] >> HALF))
        at = distance[tail]
        if at != distance[head] or at == top:
            continue
        if at + distance.dtype.type(edges.weights[index]) != at:
            continue
        if has(unresolved, head):
            if not has(unresolved, tail):
                atomic_umin(field.parent, head, tail)
        elif edges.undirected and has(unresolved, tail):
            atomic_umin(field.parent, tail, head)


@subroutine
def _cross_part(control: Any, edges: Any, field: Any) -> None:
    for piece in pieces_of(control, edges):
        far = min(field.far[edges.tail[piece]], field.far[edges.head[piece]])
        if edges.lightest[piece] <= far / ABSORBED:
            _cross_piece(edges, piece, field)


@subroutine
def _drop_resolved(control: Any, field: Any) -> None:
    none, found = field.parent.dtype.type(-1), 0
    for vertex in members_of(field.unresolved):
        if field.parent[vertex] != none:
            drop(field.unresolved, vertex)
            found += 1
    control[UNRESOLVED] -= found
    control[RESOLVED], control[CHUNK] = found, 0


@subroutine
def resolve_plateaus(thread: int, threads: int, control: Any, edges: Any, field: Any) -> None:
    """Give what lies on plateaus its parents, hop by hop; all threads call it."""
    found = 1
    while True:
        if not barrier(control, threads):
            return
        if control[UNRESOLVED] == 0 or found == 0:
            return
        _cross_part(control, edges, field)
        if not barrier(control, threads):
            return
        if thread == 0:
            _drop_resolved(control, field)
        if not barrier(control, threads):
            return
        found = control[RESOLVED]
