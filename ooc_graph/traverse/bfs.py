"""Breadth-first search over many ranks: level by level, in the cheaper direction [1]_.

Returns canonical parents: the smallest internal id among the neighbours one level up.

References
----------
.. [1] S. Beamer, K. Asanovic, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np

from ooc_graph.exchange.interface import Arrived, Route, Share, Superstep, World
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.common.device import BfsPartsRank, BfsRank, BfsShared
from ooc_graph.kernels.common.peers import BfsPeerRank, ReturningBfsRank
from ooc_graph.traverse.states import NO_STATES, State, States
from ooc_graph.types import AnyArray

FEW_ARCS = 1 << 12
"""A rank's frontier is pushed before the direction is known if it has at most this many arcs."""


_APART = 1, 0, 0
"""What a rank shares that cannot search together with others."""


def bfs(
    rank: BfsRank, root: int, shared: BfsShared, states: States = NO_STATES
) -> Superstep[BfsTree]:
    """Search from ``root``, an internal id, on one rank of many; the same on all.

    ``shared`` is what this process knows of everyone's frontier, made new for each search. Ranks
    `Share` the frontier found last: vertices, out-arcs, the own rows' out-arcs and arcs examined;
    and the bitmap of the own rows in it. If it has few arcs, its neighbours and their parents come
    along, before the level's direction is known. In other levels that push, ranks `Route` the
    frontier's unvisited neighbours and their parents; if that takes several parts, they share after
    each how many have not pushed all.
    A state is the tree down to the frontier; who goes on from one shares first what is visited.
    Ranks that reach each other's memory search in one launch each instead (`BfsPeerRank`), unless
    they write states. Returns parents and levels of the own rows, in local order.
    """
    peer = _peer(rank, states)
    rank.start(root)
    tree, apart = _begun(peer, shared)
    if tree is None:
        tree = yield from _by_levels(rank, root, shared, states, peer, apart)
    return tree


def _by_levels(
    rank: BfsRank,
    root: int,
    shared: BfsShared,
    states: States,
    peer: BfsPeerRank | None,
    apart: tuple[int, ...],
) -> Superstep[BfsTree]:
    """Search level by level, unless ranks can do so together.

    In the first superstep alone each rank shares ``apart``: whether it cannot search together, and
    its greeting.
    """
    vertices: list[int] = []
    arcs: list[int] = []
    directions: list[int] = []
    examined, unvisited_arcs = 0, -1
    state = states.before()
    if state is not None:
        vertices, arcs, directions, unvisited_arcs = state.facts["levels"]
        yield Share((), (_claim_again(rank, state, len(vertices)),))
        del state  # and its arrays
    direction = directions[-1] if directions else PUSH
    in_parts = cast(BfsPartsRank, rank) if hasattr(rank, "begin_push") else None
    # Who has met the others searches with them again, most likely, and needs no frontier for that.
    is_brief, is_new = apart[1] > 0, True
    while True:
        found, found_arcs, bits = rank.frontier()
        counts = (found, found_arcs, rank.arcs, examined, states.waits(), *apart)
        ahead = None if is_brief else _pushed_ahead(rank, in_parts, found_arcs, shared)
        bits = bits[:0] if is_brief else bits
        world: World = yield Share(counts, (bits,), ahead, is_disjoint=is_new)
        frontier, frontier_arcs, all_arcs, level_arcs, waiting, *met = world.counts
        if met and peer is not None:
            tree = yield from _with_peers(peer, root, all_arcs, shared, met)
            if tree is not None:
                return tree
        apart, is_brief, is_new = (), False, not (met and met[1])
        if not is_new:
            # Some were brief in vain: all share the frontier, some of them once more.
            continue
        if len(arcs) < len(vertices):
            arcs.append(level_arcs)
        if frontier == 0:
            return rank.tree(vertices, arcs, directions)
        if not waiting:
            levels = vertices, arcs, directions, unvisited_arcs
            states.write({"levels": levels}, partial(_found, rank))
        unvisited_arcs = (all_arcs if unvisited_arcs < 0 else unvisited_arcs) - frontier_arcs
        direction = choose_direction(
            direction, frontier, frontier_arcs, unvisited_arcs, rank.vertices
        )
        vertices.append(frontier)
        directions.append(direction)
        if direction == PULL:
            examined = rank.pull(shared)
        else:
            each = found_arcs, frontier_arcs
            examined = yield from _push(rank, in_parts, shared, each, world.arrived)


def _peer(rank: BfsRank, states: States) -> BfsPeerRank | None:
    """The rank, if it may search together with others."""
    # To ask by isinstance what a rank can do takes longer than some steps.
    if states.writes or not hasattr(rank, "introduce"):
        return None
    peer = cast(BfsPeerRank, rank)
    return peer if peer.may_meet else None


def _begun(peer: BfsPeerRank | None, shared: BfsShared) -> tuple[BfsTree | None, tuple[int, ...]]:
    """The tree, if ranks that met before have come again without a message, and searched.

    Then what a rank says in the first superstep: whether it cannot search together, and its
    greeting.
    """
    if peer is None or not peer.is_free(shared):
        return None, _APART
    greeting, tree = peer.greeting, None
    if hasattr(peer, "again"):
        tree = cast(ReturningBfsRank, peer).again(shared)
    if peer.greeting != greeting:
        # All came, but their search did not reach its end.
        return tree, _APART
    return tree, (0, *greeting)


def _found(rank: BfsRank) -> tuple[AnyArray, AnyArray]:
    tree = rank.tree((), (), ())
    return tree.parent, tree.level


def _claim_again(rank: BfsRank, state: State, depth: int) -> AnyArray:
    """Have a rank claim what it had found, level by level; the bitmap of all that is visited."""
    parent, level = state.arrays
    rows = np.argsort(level, kind="stable")
    ends = np.searchsorted(level, np.arange(depth + 2, dtype=level.dtype), sorter=rows)
    _, _, visited = rank.frontier()
    for begin, end in pairwise(ends[1:].tolist()):
        found = rows[begin:end]
        rank.claim(state.dealing.internal_of(found).astype(parent.dtype), parent[found])
        visited |= rank.frontier()[2]
    return visited


def _pushed_ahead(
    rank: BfsRank, in_parts: BfsPartsRank | None, found_arcs: int, shared: BfsShared
) -> Route | None:
    """Candidates of a thin level, which save the ranks a superstep if the level is pushed.

    ``shared`` lacks the frontier still: its vertices may be among them, and are not claimed again.
    """
    if found_arcs > FEW_ARCS or (in_parts is not None and not in_parts.most_at_once):
        return None
    if in_parts is not None:
        in_parts.begin_push()
    target, parent, _ = rank.push(shared)
    return Route(target, (parent,))


def _push(
    rank: BfsRank,
    in_parts: BfsPartsRank | None,
    shared: BfsShared,
    each: tuple[int, int],
    arrived: Arrived | None,
) -> Superstep[int]:
    """Push the frontier, in parts if it is too large, unless it has ``arrived``; arcs examined.

    ``each`` are out-arcs of the own frontier, and of that of all ranks.
    """
    found_arcs, frontier_arcs = each
    if arrived is not None:
        rank.claim(arrived.target, arrived.columns[0])
        return found_arcs
    if in_parts is not None:
        in_parts.begin_push()
    if in_parts is None or frontier_arcs <= in_parts.most_at_once:
        target, parent, examined = rank.push(shared)
        arrived = yield Route(target, (parent,))
        rank.claim(arrived.target, arrived.columns[0])
        return examined
    examined, pushing = 0, 1
    while pushing:
        target, parent, looked = rank.push(shared)
        examined += looked
        arrived = yield Route(target, (parent,))
        rank.claim(arrived.target, arrived.columns[0])
        world: World = yield Share((int(in_parts.is_pushing),))
        (pushing,) = world.counts
    return examined


def _with_peers(
    rank: BfsPeerRank, root: int, arcs: int, shared: BfsShared, met: Sequence[int]
) -> Superstep[BfsTree | None]:
    """Search by ranks that reach each other's memory; None if they do not.

    ``arcs`` are those of all ranks, and ``met`` says how many cannot, and sums of greetings. If it
    is None, the rank's steps go on as if this had not been tried.
    """
    apart, *greetings = met
    if apart:
        return None
    may_keep = True
    try:
        if not rank.has_met(greetings):
            world: World = yield Share(rank.introduce(shared))
            if not rank.can_meet(world.counts):
                return None
            may_keep = False
            world = yield Share(rank.offer(), joins=rank.joins)
            world = yield Share((int(not rank.join(world.counts)),))
            if world.counts[0]:
                return None
        may_keep = False
        rank.launch(root, arcs)
        if rank.agrees:
            may_keep = rank.finish()
        else:
            # Ranks of one thread: nobody waits before all have begun.
            yield Share(())
            has_answer = rank.finish()
            world = yield Share((int(not has_answer),))
            may_keep = not world.counts[0]
        return rank.peer_tree() if may_keep else None
    finally:
        rank.part(may_keep=may_keep)
