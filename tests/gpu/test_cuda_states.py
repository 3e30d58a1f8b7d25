"""Ranks on a device that are stopped, and others, there or on the CPU, that go on from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.sssp.distances import distance_dtype
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.search import rank_states
from tests.gpu.tiered import PinnedRanks, StoreRanks
from tests.strategies import Arcs
from tests.unit import test_rank_states
from tests.unit.test_rank_states import MEMORY, graphs

pytest.importorskip("cupy", reason="CuPy is not installed")

SMALL = {"block_bytes": 256, "batch_blocks": 4, "window": 128, "look": 20}
PLACES = {
    "device": CudaDevice,
    "pinned": lambda: PinnedRanks(2, 2),
    "store": lambda: StoreRanks(1, 4, **SMALL),
}


class Attempts(test_rank_states.Attempts):
    """Those of ranks on a device too."""

    @staticmethod
    def made(arcs: Arcs, kernel: str, kind: str, shards: int) -> tuple[list[Any], Any]:
        """Ranks, and what they share."""
        if kind not in PLACES:
            return test_rank_states.made(arcs, kernel, kind, shards)
        device: Any = PLACES[kind]()
        ranks = [getattr(device, f"{kernel}_rank")(part) for part in arcs.shards(shards)]
        if kernel == "bfs":
            return ranks, device.bfs_shared(arcs.vertices, shards)
        return ranks, device.sssp_shared(arcs.vertices, distance_dtype(arcs.weight))


@pytest.fixture(autouse=True)
def at_every_superstep(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always time to write."""
    monkeypatch.setattr(rank_states, "LEAST_S", 0.0)
    monkeypatch.setattr(rank_states, "TIMES", 0)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("name", graphs())
def test_lost_at_some_supersteps(
    name: str, kernel: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device goes on from its own states and the CPU's, and the CPU from the device's."""
    monkeypatch.setattr(decisions, "pull_pays", lambda *_: name == "hubs")
    arcs, lost = graphs()[name], 0
    for superstep in (2, 5, 9):
        for who, then in ((place, MEMORY), (MEMORY, place), (place, place)):
            folder = tmp_path / f"{superstep}-{who}-{then}"
            folder.mkdir()
            attempts = Attempts(arcs, kernel, folder, 3)
            if attempts.run(who, 4, (superstep, 3)) is None:
                lost += rank_states.before(attempts.checkpoints).whole is not None
                attempts.check(attempts.run(then, 2))
    assert lost
