"""Single-source shortest paths over many ranks: push from the root, pull for the rest.

Every process keeps a replica of all distances. Pushing is label-correcting below a bound that
rises; once it has settled the hub core, every other row pulls along its lightest arcs until
nothing changes. Distances are the greatest fixed point, parents follow from them (decision 7), so
that neither depends on the order of relaxations.
"""

from __future__ import annotations

from ooc_graph.exchange.interface import Share, Superstep, World
from ooc_graph.kernels.common.decisions import (
    SsspTree,
    adapt_step,
    finish_by_push,
    pull_pays,
    push_is_enough,
)
from ooc_graph.kernels.common.device import SsspRank, SsspShared


def sssp(rank: SsspRank, root: int, shared: SsspShared) -> Superstep[SsspTree]:
    """Search from ``root`` on one rank of many; all weights are >= 0.

    Parameters
    ----------
    rank
        The device's steps on this rank's rows.
    root
        Internal id, the same on all ranks.
    shared
        This process's replica of the distances; made new for each search.

    Yields
    ------
    Share
        Counts, and improvements that everyone's replica takes.

    Returns
    -------
    SsspTree
        Parents and distances of the own rows, in local order.

    Raises
    ------
    InputError
        A shortest distance exceeds the distances' dtype.
    AssertionError
        The graph's out- and in-arcs contradict each other.
    """
    rank.start()
    phase_arcs = {"push": 0, "pull": 0, "finish": 0, "parents": 0}
    all_arcs, step, may_pull = yield from _survey(rank, shared)
    bound, settled = yield from _push_rising(
        rank, root, shared, phase_arcs, all_arcs, step, may_pull
    )
    if not settled:
        settled = yield from _pull(rank, shared, phase_arcs, bound)
    if not settled:
        yield from _finish(rank, shared, phase_arcs)
    yield from _parents(rank, root, shared, phase_arcs)
    return rank.tree(shared, phase_arcs)


def _survey(rank: SsspRank, shared: SsspShared) -> Superstep[tuple[int, float, bool]]:
    """All arcs, the first step of the bound, and whether pulling pays on this graph."""
    counts, step = rank.survey()
    world: World = yield Share((*counts, rank.arcs), rank.nothing(step))
    head, tuples, spread, sampled, arcs = world.counts
    may_pull = pull_pays(head / max(tuples, 1), spread / max(sampled, 1))
    return arcs, float(shared.smallest) or 1.0, may_pull


def _push_rising(
    rank: SsspRank,
    root: int,
    shared: SsspShared,
    phase_arcs: dict[str, int],
    all_arcs: int,
    step: float,
    may_pull: bool,
) -> Superstep[tuple[float, bool]]:
    """Push until all is settled, or enough for pulling; the last bound, and which of the two."""
    payload, examined, again, bound = rank.seed(root), 0, 0, 0.0
    done = again_done = 0
    while True:
        world: World = yield Share((len(payload[0]), examined, again), payload)
        phase_arcs["push"] += world.counts[1]
        done, again_done = done + world.counts[1], again_done + world.counts[2]
        if world.counts[0] == 0:
            if shared.smallest == shared.unreached:
                return bound, True
            if may_pull and push_is_enough(phase_arcs["push"], all_arcs):
                return bound, False
            step = adapt_step(step, done, again_done)
            bound, done, again_done = shared.bound_above(step), 0, 0
        payload, examined, again = rank.push(shared, bound)


def _pull(
    rank: SsspRank, shared: SsspShared, phase_arcs: dict[str, int], bound: float
) -> Superstep[bool]:
    """Pull until nothing changes (True), or until pushing what changed is cheaper (False)."""
    final, floor, passes = bound, 0.0, 0
    while True:
        payload, changed_arcs, examined = rank.pull(shared, final, floor)
        world: World = yield Share((len(payload[0]), changed_arcs, examined), payload)
        changed, changed_arcs, pulled = world.counts
        phase_arcs["pull"] += pulled
        passes += 1
        if changed == 0:
            return True
        if passes > 1 and finish_by_push(changed_arcs, pulled, rank.vertices):
            return False
        final, floor = max(final, shared.low), shared.low


def _finish(rank: SsspRank, shared: SsspShared, phase_arcs: dict[str, int]) -> Superstep[None]:
    """Push what the last pass changed, and what that changes, to the end."""
    rank.drop_pending()
    changed = 1
    while changed:
        payload, examined, _ = rank.push(shared, shared.unreached)
        world: World = yield Share((len(payload[0]), examined), payload)
        changed = world.counts[0]
        phase_arcs["finish"] += world.counts[1]


def _parents(
    rank: SsspRank, root: int, shared: SsspShared, phase_arcs: dict[str, int]
) -> Superstep[None]:
    """Parents from the final distances; those on plateaus hop by hop."""
    left, examined = rank.find_parents(shared, root)
    counts = (len(left), examined, int(rank.overflowed(shared)))
    world: World = yield Share(counts, (left,))
    phase_arcs["parents"] += world.counts[1]
    if world.counts[2]:
        rank.refuse_overflow()
    unresolved = world.counts[0]
    while unresolved:
        solved = rank.resolve(shared)
        world = yield Share((len(solved),), (solved,))
        if world.counts[0] == 0:
            raise AssertionError(f"{unresolved} reached vertices have no neighbor on a path")
        unresolved = unresolved - world.counts[0]
