"""Single-source shortest paths over many ranks: push from the root, pull for the rest.

Every process keeps a replica of all distances, or all processes of one host share one. If all ranks
can, each uses at once what it finds for its own rows, and tells the others when it finds no more,
or much; or they find all distances in one launch each. Pushing is label-correcting below a bound
that rises; once it has settled the hub core, every other row pulls along its lightest arcs until
nothing changes. Distances are the greatest fixed point, and parents follow from them
(docs/reference/storage.md), so that neither depends on the order of relaxations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ooc_graph.exchange.ascending import smallest_of_each
from ooc_graph.exchange.interface import Share, Superstep, World
from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.device import Payload, SsspInnerRank, SsspRank, SsspShared
from ooc_graph.kernels.common.peers import Outset, SsspPeerRank
from ooc_graph.kernels.common.sssp import rows
from ooc_graph.traverse.sssp_parents import Stage, find_parents
from ooc_graph.traverse.sssp_states import Begun, SsspStates
from ooc_graph.traverse.states import NO_STATES, States
from ooc_graph.types import AnyArray


def sssp(
    rank: SsspRank, root: int, shared: SsspShared, states: States = NO_STATES
) -> Superstep[decisions.SsspTree]:
    """Search from ``root``, an internal id, on one rank of many; all weights are >= 0.

    ``shared`` is this process's replica of the distances, made new for each search. Ranks `Share`
    counts and improvements that everyone's replica takes; once after pulling they `Route` vertices
    and their possible parents among those next to the root. A state is the distances found so far,
    which bound the final ones; who goes on from one shares them first. Ranks that share distances
    find all of them in one launch each instead (`SsspPeerRank`), unless they write states. Returns
    parents and distances of the own rows, in local order. InputError: a shortest distance exceeds
    the distances' dtype. AssertionError: the graph's out- and in-arcs contradict each other.
    """
    # To ask by isinstance what a rank can do takes longer than some steps.
    has_peers = not states.writes and hasattr(rank, "settle")
    peer = cast(SsspPeerRank, rank) if has_peers else None
    if peer is not None and not peer.may_meet:
        peer = None
    rank.start()
    phase_arcs = {"push": 0, "pull": 0, "finish": 0, "parents": 0}
    inner_rank = cast(SsspInnerRank, rank) if hasattr(rank, "push_within") else None
    outset, may_push_inner, threads, name = yield from _survey(
        rank, peer, shared, lacks_inner=inner_rank is None
    )
    at_once = inner_rank if may_push_inner else None
    found = peer.settle(shared, root, outset, threads) if peer is not None and threads else None
    if found is None:
        inner = yield from _distances(rank, at_once, root, shared, states, phase_arcs, outset)
    else:
        phase_arcs |= found.phase_arcs
        inner = None if found.inner is None else Stage(found.inner, found.following)
    yield from find_parents(rank, at_once, root, shared, phase_arcs, inner, outset.may_overflow)
    if peer is not None and threads:
        peer.keep(shared, name)
    return rank.tree(shared, phase_arcs)


def _distances(
    rank: SsspRank,
    at_once: SsspInnerRank | None,
    root: int,
    shared: SsspShared,
    states: States,
    phase_arcs: dict[str, int],
    outset: Outset,
) -> Superstep[Stage | None]:
    """Find all distances by supersteps; the stage within which all arcs were pushed, if any was."""
    step, all_arcs, may_pull, _ = outset
    push = rank.push if at_once is None else at_once.push_at_once
    saves = SsspStates(rank, shared, states, phase_arcs)
    begun = saves.begun(root, step)
    inner: Stage | None = None
    bound, settled = begun.bound, False
    if begun.pulls:
        yield Share((), _in_order(*saves.first()))
    else:
        stages, settled = yield from _push_rising(
            push, begun, shared, saves, phase_arcs, all_arcs, may_pull
        )
        bound = stages[-1].bound
        if at_once is not None and not settled:
            inner = yield from _push_inner(at_once, shared, phase_arcs, all_arcs, stages)
    if not settled:
        floor = 0.0 if inner is None else inner.following
        pull = rank.pull if at_once is None else at_once.pull_at_once
        bound, settled = yield from _pull(rank, pull, shared, saves, phase_arcs, bound, floor)
    if not settled:
        rank.drop_pending()
        yield from _finish(push, shared, saves, phase_arcs, bound)
    return inner


Push = Callable[[SsspShared, float], tuple[Payload, int, int]]
Pull = Callable[[SsspShared, float, float], tuple[Payload, int, int]]


def _survey(
    rank: SsspRank, peer: SsspPeerRank | None, shared: SsspShared, *, lacks_inner: bool
) -> Superstep[tuple[Outset, bool, int, int]]:
    """How to begin; whether to push inner vertices, which is done if all ranks have the steps.

    Then the threads of all, if these may search together; and the name of the memory in which they
    share distances.
    """
    counts, step = rank.survey()
    threads = peer.threads if peer is not None and peer.is_free(shared) else 0
    greeting, offer = (0, 0), 0
    if peer is not None and threads:
        greeting, (offer,) = peer.greeting, peer.offer()
    counts = *counts, rank.arcs, int(lacks_inner), int(not threads), threads, offer, *greeting
    joins = not lacks_inner and not any(greeting)
    world: World = yield Share(counts, rank.nothing(step), joins=joins)
    head, tuples, spread, sampled, heavy, arcs, lacking, apart, threads, name, *met = world.counts
    if any(met):
        has_met = peer is not None and peer.rejoin(shared, met)
        if has_met:
            name = greeting[0]
        elif lacking == 0:
            # Some have new memory to make, and so all of them.
            yield Share((), joins=True)
    first_step = float(shared.smallest) or 1.0
    found = rows.Survey(head, tuples, spread, sampled, first_step)
    outset = Outset(first_step, arcs, rows.may_pull(found), heavy > 0)
    return outset, lacking == 0, 0 if apart else threads, name


def _in_order(vertices: AnyArray, candidates: AnyArray, smallest: AnyArray) -> Payload:
    """Vertices ascending, each once with its smallest candidate, unless they are few."""
    return *smallest_of_each(vertices, candidates), smallest


def _push_rising(
    push: Push,
    begun: Begun,
    shared: SsspShared,
    saves: SsspStates,
    phase_arcs: dict[str, int],
    all_arcs: int,
    may_pull: bool,
) -> Superstep[tuple[list[Stage], bool]]:
    """Push until all is settled, or enough for pulling; the stages, and which of the two."""
    payload, (bound, step, _) = saves.first(), begun
    stages: list[Stage] = []
    examined = again = done = again_done = 0
    while True:
        counts = len(payload[0]), examined, again, saves.waits()
        world: World = yield Share(counts, _in_order(*payload))
        phase_arcs["push"] += world.counts[1]
        done, again_done = done + world.counts[1], again_done + world.counts[2]
        if world.counts[0] == 0:
            stages.append(Stage(bound, shared.smallest))
            if shared.smallest == shared.unreached:
                return stages, True
            if may_pull and decisions.push_is_enough(phase_arcs["push"], all_arcs):
                return stages, False
            step = decisions.adapt_step(step, done, again_done)
            bound, done, again_done = shared.bound_above(step), 0, 0
        if not world.counts[3]:
            saves.write(bound, step)
        payload, examined, again = push(shared, bound)


def _push_inner(
    rank: SsspInnerRank,
    shared: SsspShared,
    phase_arcs: dict[str, int],
    all_arcs: int,
    stages: Sequence[Stage],
) -> Superstep[Stage | None]:
    """Push the vertices nearest to the root along all of their arcs, if these are few.

    Pulls then look for no vertex that is nearer than the stage's following candidate. Returns the
    stage that they were settled in, None if even the first has too many arcs.
    """
    world: World = yield Share(tuple(rank.arcs_within(shared, [s.bound for s in stages])))
    few = [
        stage
        for stage, arcs in zip(stages, world.counts, strict=True)
        if not decisions.push_is_enough(arcs, all_arcs)
    ]
    if not few:
        return None
    payload, examined = rank.push_within(shared, few[-1].bound)
    world = yield Share((examined,), _in_order(*payload))
    phase_arcs["push"] += world.counts[0]
    return few[-1]


def _pull(
    rank: SsspRank,
    pull: Pull,
    shared: SsspShared,
    saves: SsspStates,
    phase_arcs: dict[str, int],
    final: float,
    floor: float,
) -> Superstep[tuple[float, bool]]:
    """Pull until nothing changes (True), or until pushing what changed is cheaper (False).

    And the bound up to which all is settled, in any case.
    """
    passes = 0
    while True:
        payload, changed_arcs, examined = pull(shared, final, floor)
        counts = len(payload[0]), changed_arcs, examined, saves.waits()
        world: World = yield Share(counts, _in_order(*payload))
        changed, changed_arcs, pulled, waiting = world.counts
        phase_arcs["pull"] += pulled
        passes += 1
        if changed == 0:
            return final, True
        final, floor = max(final, shared.low), shared.low
        if not waiting:
            saves.write(final, pulls=True)
        if passes > 1 and decisions.finish_by_push(changed_arcs, pulled, rank.vertices):
            return final, False


def _finish(
    push: Push, shared: SsspShared, saves: SsspStates, phase_arcs: dict[str, int], final: float
) -> Superstep[None]:
    """Push what the last pass changed, and what that changes, to the end.

    Who goes on from a state of it pulls again from ``final`` on.
    """
    changed = 1
    while changed:
        payload, examined, _ = push(shared, shared.unreached)
        counts = len(payload[0]), examined, saves.waits()
        world: World = yield Share(counts, _in_order(*payload))
        changed, examined, waiting = world.counts
        phase_arcs["finish"] += examined
        if changed and not waiting:
            saves.write(final, pulls=True)
