"""Single-source shortest paths over many ranks, each of which has its own rows' distances alone.

Ranks push their rows below a bound that rises. Candidates for rows of others are routed to their
owners, of each target the smallest that a rank has found since it last sent, with the parent that
it comes from. Every row pushes all of its arcs when its distance is final, so that its neighbours
are offered all parents that they may have (docs/reference/storage.md).
"""

from __future__ import annotations

import numpy as np

from ooc_graph.exchange.interface import Route, Share, Superstep, World
from ooc_graph.kernels.common.decisions import SsspTree, adapt_step
from ooc_graph.kernels.common.sssp.owned import Candidates, OwnedSsspRank, SharedSettled
from ooc_graph.traverse.states import NO_STATES, States

FEW_LEFT = 8
"""Ranks ask whether anything can be reached if fewer than one vertex in this many is left."""


def sssp_owned(
    rank: OwnedSsspRank,
    root: int,
    shared: SharedSettled,
    most_listed: int,
    states: States = NO_STATES,
) -> Superstep[SsspTree]:
    """Search from ``root``, an internal id, on one rank of many; all weights are >= 0.

    ``shared`` is what this process knows of the vertices that are settled, made new for each
    search. A rank lists ``most_listed`` candidates at a time. Ranks `Share` counts and their
    smallest candidate beyond the bound, with candidates for the owners of their targets; under each
    bound once which rows it has settled. States are those of `ooc_graph.traverse.sssp.sssp`.
    Returns parents and distances of the own rows, in local order. Errors are those of `sssp`, too.
    """
    phase_arcs = {"push": 0, "pull": 0, "finish": 0, "parents": 0}
    counts, first_step = rank.survey()
    world: World = yield Share(counts[-1:], rank.nothing(first_step))
    may_overflow, first_step = world.counts[0] > 0, float(shared.smallest) or 1.0
    state = states.before()
    bound, step = 0.0, first_step
    if state is None:
        rank.begin(root, bound, None, most_listed)
    else:
        bound, step, _ = state.facts["begun"]
        phase_arcs.update(state.facts["arcs"])
        rank.begin(root, bound, state.arrays[0], most_listed)
        del state  # and its arrays
    yield from _push_rising(rank, shared, states, phase_arcs, bound, step or first_step)
    if may_overflow:
        yield Share((), rank.settled(shared.unreached)[:1], is_disjoint=True)
    overflows = may_overflow and rank.overflowed(shared)
    world = yield Share((rank.list_lacking(), int(overflows)))
    if world.counts[1]:
        rank.refuse_overflow()
    yield from _resolve(rank, phase_arcs, world.counts[0])
    return rank.tree(phase_arcs)


def _push_rising(
    rank: OwnedSsspRank,
    shared: SharedSettled,
    states: States,
    phase_arcs: dict[str, int],
    bound: float,
    step: float,
) -> Superstep[None]:
    """Push until all distances are final, with the best parent of each that is nearer."""
    done = again_done = again = 0
    while True:
        pushed = rank.push(shared, bound)
        left = len(pushed.listed[0]) + pushed.waiting
        counts = left, pushed.examined, again + pushed.again, states.waits()
        world: World = yield Share(counts, rank.nothing(pushed.smallest), _routed(pushed.listed))
        again = rank.take(_arrived(world))
        left, examined, improved, waiting = world.counts
        phase_arcs["push"] += examined
        done, again_done = done + examined, again_done + improved
        if not left:
            if shared.smallest == shared.unreached:
                return
            words, beyond = rank.settled(bound)
            world = yield Share((beyond,), (words,), is_disjoint=True)
            if not world.counts[0]:
                return
            # Of directed rows the other ends are not known.
            if not rank.directed and world.counts[0] * FEW_LEFT < rank.vertices:
                world = yield Share((int(rank.may_reach_more(shared)),))
                if not world.counts[0]:
                    return
            step = adapt_step(step, done, again_done)
            bound, done, again_done = shared.bound_above(step), 0, 0
        if not waiting:
            facts = {"arcs": dict(phase_arcs), "begun": (np.asarray(bound).item(), step, False)}
            states.write(facts, lambda: [rank.distances()])


def _routed(candidates: Candidates) -> Route:
    target, *columns = candidates
    return Route(target, tuple(columns))


def _arrived(world: World) -> Candidates:
    assert world.arrived is not None
    found, near, parent = world.arrived.columns
    return world.arrived.target, found, near, parent


def _resolve(rank: OwnedSsspRank, phase_arcs: dict[str, int], lacking: int) -> Superstep[None]:
    """Find parents of the ``lacking`` vertices, on plateaus, hop by hop."""
    while lacking:
        offering = 1
        while offering:
            listed, left, examined = rank.offer()
            world: World = yield Share((left, examined), (), _routed(listed))
            rank.take_offers(_arrived(world))
            offering = world.counts[0]
            phase_arcs["parents"] += world.counts[1]
        world = yield Share((rank.end_hop(),))
        if world.counts[0] == 0:
            raise AssertionError(f"{lacking} reached vertices have no neighbor on a path")
        lacking -= world.counts[0]
