"""SSSP on rows in memory, by supersteps, or together with ranks of other processes of the host."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.peers import Outset, Settled
from ooc_graph.kernels.common.sssp.rows import Known, LightRows
from ooc_graph.kernels.common.team import GENERATION, OPERATION, Team, new_control
from ooc_graph.kernels.cpu.peers import TakesThreads, waits_of
from ooc_graph.kernels.cpu.sssp import fused
from ooc_graph.kernels.cpu.sssp.common import (
    COMMON_BYTES,
    DONE,
    STAGES,
    Common,
    Own,
    Start,
    common_in,
)
from ooc_graph.kernels.cpu.sssp.push import HeadedRows
from ooc_graph.kernels.cpu.sssp.rank import CpuSsspRank
from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared
from ooc_graph.kernels.cpu.sssp.together import search_together
from ooc_graph.types import Dealing


class CpuPeerSsspRank(TakesThreads, CpuSsspRank):
    """A rank with all its rows in memory: also an `SsspPeerRank`.

    It searches with others if each is the only one of its process, whose threads nobody else uses,
    and all processes map common distances.
    """

    def __init__(
        self, dealing: Dealing, out: LightRows, into: HeadedRows, known: Known, team: Team
    ) -> None:
        super().__init__(dealing, out, into, known, team)
        self._headed = into

    @property
    def threads(self) -> int:
        """As of `SsspPeerRank`."""
        return self._team.threads

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
        found = None
        try:
            found = self._settle(shared, common, root, outset, threads)
        finally:
            if found is None:
                # Who comes later is not to wait.
                common.control[GENERATION] = meeting.GIVEN_UP
        if found is None:
            self._failures += 1
            shared.part()
            self.start()
        else:
            self._failures = 0
        return found

    def _settle(
        self, shared: CpuSsspShared, common: Common, root: int, outset: Outset, threads: int
    ) -> Settled | None:
        wave, dtype = self._seen(shared), self._top.dtype
        bounds, following = np.empty((2, STAGES), dtype)
        limits, found = np.zeros(4, dtype), np.empty(common.target.shape[-1], dtype)
        control, inner = new_control(), wave._replace(first=wave.queue)
        scratch = found, bounds, following, limits, self._ranges, self._scratches
        own = Own(self._out, self._headed, wave, inner, *scratch)
        given = self.vertices, outset.arcs, outset.step, outset.may_pull
        start = Start(wave.dealt, waits_of(threads), root, *given)
        self._team.launch_taken(search_together, control, common, own, start)
        if control[OPERATION] != DONE:
            return None
        phase_arcs = {
            "push": int(control[fused.PUSHED]),
            "pull": int(control[fused.PULLED]),
            "finish": int(control[fused.FINISHED]),
        }
        has_inner = bool(control[fused.INNER])
        return Settled(bounds[0] if has_inner else None, limits[fused.BEYOND], phase_arcs)

    def rehearse(self, shared: CpuSsspShared) -> None:
        """Find distances from row 0 alone, as the only rank, so that the kernel is compiled."""
        common = common_in(np.zeros(COMMON_BYTES, np.uint8), 1, self._top.dtype, self._ids)
        assert common is not None
        self.start()
        shared.part()
        assert self._settle(shared, common, 0, Outset(1.0, self.arcs, True), 1) is not None
