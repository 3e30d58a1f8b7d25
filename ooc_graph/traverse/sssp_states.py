"""States of SSSP on one rank: distances that bound the final ones, and how far these are known."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ooc_graph.kernels.common.device import Payload, SsspRank, SsspShared
from ooc_graph.traverse.states import States


class Begun(NamedTuple):
    """Where a search begins: the bound up to which all is settled.

    Unless it ``pulls``, the bound rises by ``step``.
    """

    bound: float
    step: float
    pulls: bool = False


class SsspStates:
    """Writes states of a rank, and reads one; ``phase_arcs`` are counted by the search."""

    def __init__(
        self,
        rank: SsspRank,
        shared: SsspShared,
        states: States,
        phase_arcs: dict[str, int],
    ) -> None:
        self._rank = rank
        self._first: list[Payload] = []
        self._shared, self._states, self._phase_arcs = shared, states, phase_arcs

    def begun(self, root: int, step: float) -> Begun:
        """Where to begin: at the root with this step, or with what was found before."""
        state = self._states.before()
        if state is None:
            self._first.append(self._rank.seed(root))
            return Begun(0.0, step)
        self._phase_arcs.update(state.facts["arcs"])
        (distance,), far = state.arrays, self._shared.unreached
        ids, _, none = self._rank.nothing(far)
        rows = np.flatnonzero(distance != far)
        vertices = state.dealing.internal_of(rows).astype(ids.dtype)
        self._first.append((vertices, distance[rows], none))
        return Begun(*state.facts["begun"])

    def first(self) -> Payload:
        """What to share first; it is given once, since nobody needs it later."""
        return self._first.pop()

    def waits(self) -> int:
        """As of `States`."""
        return self._states.waits()

    def write(self, bound: float, step: float = 0.0, *, pulls: bool = False) -> None:
        """Write what is found: all up to ``bound`` is settled, or will be pushed first."""
        begun = np.asarray(bound).item(), step, pulls
        facts = {"arcs": dict(self._phase_arcs), "begun": begun}
        distances = partial(self._rank.distances, self._shared)
        self._states.write(facts, lambda: [distances()])
