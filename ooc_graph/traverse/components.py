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
from ooc_graph.traverse.states import NO_STATES, State, States
from ooc_graph.types import AnyArray


def components(
    rank: ComponentsRank, shared: ComponentsShared, states: States = NO_STATES
) -> Superstep[ComponentLabels]:
    """Find the components on one rank of many.

    ``shared`` is this process's forest over all vertices, made new for each search. Ranks `Share`
    how many have not ended the pass, arcs examined, and pairs of labels to unite. A state is the
    labels; who goes on from one shares them as pairs, and begins its pass again, or the next one if
    it had ended.

    Returns the smallest internal id of the component of each own row, in local order.
    """
    samples = [(OUT, neighbor, neighbor + 1) for neighbor in range(SAMPLED)]
    passes = [*samples, (OUT, SAMPLED, None), (IN, 0, None)][: SAMPLED + 1 + rank.directed]
    done, common, arcs = 0, EVERY_ROW, [0, 0]
    state = states.before()
    if state is not None:
        done, common, arcs = state.facts["passes"]
        yield Share((), _unions(state))
        del state  # and its arrays
    for number, (side, first, last) in enumerate(passes[done:], done):
        if number == SAMPLED:
            # All replicas are equal here, so all ranks leave out the same component.
            common = shared.most_common()
        rank.begin(side, first, last, common)
        going_on = 1
        while going_on:
            pairs, examined, ended = rank.step(shared)
            counts = int(not ended), examined, states.waits()
            world: World = yield Share(counts, pairs)
            going_on, examined, waiting = world.counts
            arcs[number >= SAMPLED] += examined
            if not waiting:
                # A pass that has ended is not begun again.
                facts = {"passes": [number + (not going_on), common, arcs]}
                states.write(facts, lambda: [rank.answer(shared, {}).label])
    return rank.answer(shared, dict(zip(("sample", "rest"), arcs, strict=True)))


def _unions(state: State) -> tuple[AnyArray, AnyArray]:
    """Own rows and the labels that they had, where these differ."""
    (label,) = state.arrays
    vertices = state.dealing.owned().astype(label.dtype)
    differ = vertices != label
    return label[differ], vertices[differ]
