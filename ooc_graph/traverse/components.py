"""Weakly connected components over many ranks: the first neighbours of all rows, then the rest.

The order of work is Afforest's [1]_; what it saves on one machine in memory accesses it saves here
in messages. Every process keeps a forest over all vertices. In each superstep ranks send the pairs
of trees that their arcs join, and every process unites them. Once one neighbour or two of each
row are done, most rows of a graph with hubs are in one component, and rows in it need not be
looked at again: an arc that leads out of it stands in the row of its other end too. Passes are as
many on a road network as on a social network; each ends after a bounded number of supersteps.

References
----------
.. [1] M. Sutton, T. Ben-Nun, A. Barak, "Optimizing parallel graph connectivity computation via
   subgraph sampling", IPDPS 2018.
"""

from __future__ import annotations

from ooc_graph.exchange.interface import Share, Superstep, World
from ooc_graph.kernels.common.components import (
    EVERY_ROW,
    IN,
    OUT,
    SAMPLED,
    ComponentLabels,
    ComponentsRank,
    ComponentsShared,
)


def components(rank: ComponentsRank, shared: ComponentsShared) -> Superstep[ComponentLabels]:
    """Find the components on one rank of many.

    ``shared`` is this process's forest over all vertices, made new for each search. Ranks `Share`
    how many have not ended the pass, arcs examined, and pairs of labels to unite. Returns the
    smallest internal id of the component of each own row, in local order.
    """
    sample = 0
    for neighbor in range(SAMPLED):
        rank.begin(OUT, neighbor, neighbor + 1, EVERY_ROW)
        sample += yield from _pass(rank, shared)
    # All replicas are equal here, so all ranks leave out the same component.
    common = shared.most_common()
    rank.begin(OUT, SAMPLED, None, common)
    rest = yield from _pass(rank, shared)
    if rank.directed:
        rank.begin(IN, 0, None, common)
        rest += yield from _pass(rank, shared)
    return rank.answer(shared, {"sample": sample, "rest": rest})


def _pass(rank: ComponentsRank, shared: ComponentsShared) -> Superstep[int]:
    """Step until all ranks have looked at their arcs; the arcs examined by all."""
    examined, going_on = 0, 1
    while going_on:
        pairs, arcs, ended = rank.step(shared)
        world: World = yield Share((int(not ended), arcs), pairs)
        going_on = world.counts[0]
        examined += world.counts[1]
    return examined
