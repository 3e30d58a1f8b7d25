"""Parents of an SSSP over many ranks, which follow from its distances."""

from __future__ import annotations

from typing import NamedTuple

from ooc_graph.exchange.interface import Arrived, Route, Share, Superstep, World
from ooc_graph.kernels.common.device import SsspInnerRank, SsspRank, SsspShared


class Stage(NamedTuple):
    """A bound below which all is settled, and the smallest candidate beyond it."""

    bound: float
    following: float


def find_parents(
    rank: SsspRank,
    inner_rank: SsspInnerRank | None,
    root: int,
    shared: SsspShared,
    phase_arcs: dict[str, int],
    inner: Stage | None,
    may_overflow: bool,
) -> Superstep[None]:
    """Parents from the final distances; those on plateaus hop by hop."""
    offering = 0
    if inner is not None:
        assert inner_rank is not None
        target, offered, offering = inner_rank.offer_within(shared, inner.bound)
        arrived: Arrived = yield Route(target, (offered,))
        inner_rank.take_offered(shared, arrived.target, arrived.columns[0], inner.following)
    left, examined = rank.find_parents(shared, root)
    examined += offering
    counts = (len(left), examined, int(may_overflow and rank.overflowed(shared)))
    world: World = yield Share(counts, (left, left[:0]))
    phase_arcs["parents"] += world.counts[1]
    if world.counts[2]:
        rank.refuse_overflow()
    unresolved = world.counts[0]
    while unresolved:
        solved = rank.resolve(shared)
        world = yield Share((len(solved),), (solved[:0], solved))
        if world.counts[0] == 0:
            raise AssertionError(f"{unresolved} reached vertices have no neighbor on a path")
        unresolved = unresolved - world.counts[0]
