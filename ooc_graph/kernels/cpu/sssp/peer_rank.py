"""SSSP on rows in memory, by supersteps, or together with ranks of other processes of the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ooc_graph.kernels.common.peers import Outset, Settled
from ooc_graph.kernels.common.sssp.rows import Known, LightRows
from ooc_graph.kernels.common.team import OPERATION, Team, new_control
from ooc_graph.kernels.cpu.peers import LaunchesTogether, waits_of
from ooc_graph.kernels.cpu.sssp import fused
from ooc_graph.kernels.cpu.sssp.common import (
    COMMON_BYTES,
    DONE,
    LIMITS,
    STAGES,
    WITHIN,
    Common,
    Own,
    Start,
    common_in,
)
from ooc_graph.kernels.cpu.sssp.push import HeadedRows
from ooc_graph.kernels.cpu.sssp.rank import CpuSsspRank
from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared
from ooc_graph.kernels.cpu.sssp.together import search_together
from ooc_graph.types import AnyArray, Dealing


class CpuPeerSsspRank(LaunchesTogether, CpuSsspRank):
    """A rank with all its rows in memory: also an `SsspPeerRank`.

    It searches with others if each is the only one of its process, whose threads nobody else uses,
    and all processes map common distances. Their memory is kept for later searches.
    """

    def __init__(
        self, dealing: Dealing, out: LightRows, into: HeadedRows, known: Known, team: Team
    ) -> None:
        super().__init__(dealing, out, into, known, team)
        self._headed = into
        self._memory: AnyArray | None = None

    @property
    def threads(self) -> int:
        """As of `SsspPeerRank`."""
        return self._team.threads

    def rejoin(self, shared: CpuSsspShared, greetings: Sequence[int]) -> bool:
        """As of `SsspPeerRank`."""
        memory, (self._memory, self._name) = self._memory, (None, 0)
        if not self.has_met(greetings):
            return False
        shared.join(memory, self._dealing.shard, self._dealing.shards)
        return True

    def keep(self, shared: CpuSsspShared, name: int) -> None:
        """As of `SsspPeerRank`."""
        if shared.common is not None:
            self._memory, self._name = shared.memory, name

    def settle(
        self, shared: CpuSsspShared, root: int, outset: Outset, threads: int
    ) -> Settled | None:
        """As of `SsspPeerRank`."""
        shards = self._dealing.shards
        if shared.common is None or shared.parts != shards:
            return None
        common = common_in(shared.common, shards, self._top.dtype, self._ids)
        if common is None:
            return None
        given = self._given(shared, common, root, outset, threads)
        control = self._launched(search_together, DONE, common.control, *given)
        if control is None:
            del common, given  # before there is memory for others
            shared.part()
            self.start()
            return None
        phase_arcs = {
            "push": int(control[fused.PUSHED]),
            "pull": int(control[fused.PULLED]),
            "finish": int(control[fused.FINISHED]),
        }
        limits, has_inner = given[1].limits, bool(control[fused.INNER])
        inner = limits[WITHIN] if has_inner else None
        return Settled(inner, limits[fused.BEYOND], phase_arcs)

    def _given(
        self, shared: CpuSsspShared, common: Common, root: int, outset: Outset, threads: int
    ) -> tuple[Common, Own, Start]:
        wave, dtype = self._seen(shared), self._top.dtype
        inner = wave._replace(first=wave.queue)
        bounds, following = np.empty(STAGES, dtype), np.empty(STAGES, dtype)
        limits = np.zeros(LIMITS, dtype)
        scratch = bounds, following, limits, self._ranges, self._scratches
        own = Own(self._out, self._headed, wave, inner, *scratch)
        return common, own, Start(wave.dealt, waits_of(threads), root, self.vertices, outset)

    def rehearse(self, shared: CpuSsspShared) -> None:
        """Find distances from row 0 alone, as the only rank, so that the kernel is compiled."""
        common = common_in(np.zeros(COMMON_BYTES, np.uint8), 1, self._top.dtype, self._ids)
        assert common is not None
        self.start()
        shared.part()
        control, outset = new_control(), Outset(1.0, self.arcs, may_pull=True, may_overflow=False)
        # Another search may have the threads meanwhile.
        given = self._given(shared, common, 0, outset, self._team.threads)
        self._team.launch(search_together, control, *given)
        assert control[OPERATION] == DONE
