"""Distances to some vertices, in an order of one's own, from every kind of search on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from tests.strategies import Arcs, skewed

LANES = 16
GAP = 9


def johnson_of(arcs: Arcs) -> CpuJohnson:
    shard = arcs.shards(1)[0]
    return CpuJohnson(shard.out_light, shard.into_light, Team(2), LANES, shard.tuples)


@pytest.fixture(params=["batches", "one by one", "counted", "at hubs", "at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every graph is searched in this way."""
    found: str = request.param
    monkeypatch.setattr(many_choice, "CACHED_BYTES", 0 if found == "one by one" else 1 << 60)
    monkeypatch.setattr(many_choice, "FEW_ARCS", 1e9)
    monkeypatch.setattr(many_choice, "may_pull", lambda _: found == "at hubs")
    monkeypatch.setattr(many_choice, "MANY_RELAXED", 0.0 if found == "counted" else 1e9)
    if found == "at once":
        for name, value in (("FEWEST_ROWS", 0), ("SOME_SHARE", 0), ("SURE_SHARE", 0)):
            monkeypatch.setattr(floyd_warshall, name, value)
    return found


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("dtype", "negative"),
    [
        ("int64", False),
        ("int64", True),
        ("float64", True),
        pytest.param("float32", False, marks=pytest.mark.slow),
    ],
)
def test_columns_are_those_of_all_distances(
    way: str, dtype: str, negative: bool, cut: bool
) -> None:
    """Some twice, some of who has no row; to rows among others, which stay as they are."""
    arcs = skewed(300, 1200, dtype, directed=True, seed=4)
    if negative:
        by = np.random.default_rng(1).integers(0, 4, arcs.vertices)
        arcs = replace(arcs, weight=arcs.weight + (by[arcs.source] - by[arcs.target]).astype(dtype))
    random = np.random.default_rng(2)
    sources = random.integers(0, arcs.vertices, 120)
    targets = random.integers(-1, arcs.vertices, 77)
    wide = CpuJohnson(*_sides(arcs), Team(1)).run(sources)
    far = unreached(wide.dtype)[0]
    most = np.median(wide[wide < far]).astype(wide.dtype)[()] if cut else None
    want = np.where(targets >= 0, wide[:, targets], far)
    if cut:
        want[want > most] = far
    own = np.full(len(sources), -1)
    search = johnson_of(arcs)
    search.expect(len(sources), arcs.vertices if way == "at once" and dtype == "int64" else 0)
    room = np.full((len(sources) + GAP, len(targets)), 7, wide.dtype)
    at = np.sort(random.permutation(len(room))[: len(sources)])
    reported = np.zeros(len(sources), np.int64)

    def hear(begin: int, end: int) -> None:
        assert room[at[begin:end]].tobytes() == want[begin:end].tobytes()
        reported[begin:end] += 1

    given = sources, targets, own, most
    assert (
        search.run_columns(*given, answer=room, at=at, batch_size=LANES, on_done=OnDone(hear))
        is room
    )
    assert room[at].tobytes() == want.tobytes()
    assert (np.delete(room, at, axis=0) == 7).all()
    assert (reported == 1).all()
    assert search.run_columns(*given).tobytes() == want.tobytes()
    assert search.is_one_by_one == (way in {"one by one", "counted", "at hubs"})
    assert search.has_matrix == (way == "at once" and dtype == "int64")


def _sides(arcs: Arcs) -> tuple:
    shard = arcs.shards(1)[0]
    return shard.out_light, shard.into_light
