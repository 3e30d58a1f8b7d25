"""BFS from many sources at once on a CUDA device: the bytes of the CPU, on every way to ask."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cuda.many import bfs as cuda_many_bfs
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many import host as cuda_many_host
from ooc_graph.kernels.cuda.many.bfs import CudaManyBfs
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.types import AnyArray, IntArray, Rows
from tests.gpu.comparison import hub_sides
from tests.gpu.graphs import GRAPHS, kronecker, path
from tests.gpu.memory import assert_refused_without_memory, refuse_each_allocation, used_bytes
from tests.gpu.searching import column_bytes as columns
from tests.gpu.stores import skewed
from tests.said import Said
from tests.strategies import arcs_of

pytestmark = pytest.mark.usefixtures("released")
TEAM = Team(4)
FAR = np.iinfo(np.int32).max
SHAPES = [
    *(f"kronecker {scale}" for scale in (4, 9, 13)),
    *("skewed", "skewed, directed", "sparse, directed", "dense, directed", "path"),
    *("path, directed", "star", "pieces", "grid", "one edge", "path of 5,000", "hubs"),
]
COUNTS = 1, 5, 63, 64, 65, 256, 300, 600


MANY = 3 * cuda_many_bfs_plan.MIDDLE
"""Before a test changes it."""


def hubs() -> Any:
    """Two hubs of more in-arcs than one warp pulls, apart but for a chain, and directed."""
    many = MANY
    at = np.arange(2, many + 2)
    chain = many + 2 + np.arange(6)
    source = np.concatenate([at, np.zeros(many // 2, np.int64), [0], chain[:-1], [chain[-1]]])
    target = np.concatenate([np.zeros(many, np.int64), at[::2], [chain[0]], chain[1:], [1]])
    back = np.concatenate([at, np.ones(many // 3, np.int64)])
    forth = np.concatenate([np.ones(many, np.int64), at[: 3 * (many // 3) : 3]])
    source, target = np.concatenate([source, back]), np.concatenate([target, forth])
    weight = np.ones(len(source), np.float32)
    return arcs_of(source, target, weight, directed=True)


MORE = {"path of 5,000": lambda: path(5000), "hubs": hubs}


@cache
def sides(name: str) -> tuple[Rows, Rows]:
    return hub_sides((MORE.get(name) or GRAPHS[name])().shards(1)[0])


def some(rows: Rows, count: int) -> IntArray:
    """Sources by chance, with repetitions; the first and the last row are among them."""
    vertices = len(rows.offsets) - 1
    chosen = np.random.default_rng(3).integers(0, vertices, max(count - 2, 0))
    return np.concatenate([[0, vertices - 1], chosen])[:count].astype(np.int64)


@cache
def right(name: str, count: int) -> tuple[IntArray, AnyArray]:
    sources = some(sides(name)[0], count)
    return sources, CpuManyBfs(*sides(name), TEAM).run(sources)


@pytest.mark.parametrize("name", SHAPES)
def test_same_levels_as_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Batches to the end, whatever a trial would find.
    monkeypatch.setattr(cuda_many_bfs, "TRIED_FROM", 1 << 30)
    search = CudaManyBfs(*sides(name), threads=2)
    for count in COUNTS if name in ("kronecker 9", "skewed, directed") else (5, 300):
        sources, expected = right(name, count)
        found = search.run(sources)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes(), count
        near = search.run(sources, most=3)
        assert near.tobytes() == np.where(expected > 3, FAR, expected).astype(np.int32).tobytes()
    assert not search.is_one_by_one


@pytest.mark.parametrize("name", SHAPES)
def test_same_tallies_as_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_many_bfs, "TRIED_FROM", 1 << 30)
    search, cpu = CudaManyBfs(*sides(name)), CpuManyBfs(*sides(name), TEAM)
    sources = some(sides(name)[0], 300)
    chosen = np.random.default_rng(6).random(search.vertices) < 0.3
    for options in (
        {},
        {"bins": 4, "width": 2},
        {"most": 2, "bins": 1},
        {"wanted": chosen, "bins": 7},
        {"most": 0, "wanted": chosen},
    ):
        given: dict[str, Any] = options
        found, expected = search.tally(sources, **given), cpu.tally(sources, **given)
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist(), options
    assert search.tally(sources[:0]).shape == (0, 3)


@pytest.mark.parametrize("above", [0, 1 << 40])
@pytest.mark.parametrize("name", ["kronecker 13", "skewed, directed", "hubs", "grid", "star"])
def test_either_direction_alone(name: str, above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushed in all levels, with rows cut into many pieces, or pulled in all."""
    monkeypatch.setattr(cuda_many_bfs, "TRIED_FROM", 1 << 30)
    plain, changed = cuda_many_bfs_plan.constants(), {"PULL_ABOVE": f"{above}ull"}
    monkeypatch.setattr(cuda_many_bfs_plan, "constants", lambda: {**plain, **changed})
    sources, expected = right(name, 300)
    assert CudaManyBfs(*sides(name)).run(sources).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("short", "middle"), [(0, 0), (0, 1 << 40), (1 << 40, 1 << 40)])
@pytest.mark.parametrize("name", ["kronecker 9", "sparse, directed", "hubs"])
def test_whoever_pulls(name: str, short: int, middle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four lanes, a warp or a block for every row."""
    monkeypatch.setattr(cuda_many_bfs_plan, "SHORT", short)
    monkeypatch.setattr(cuda_many_bfs_plan, "MIDDLE", middle)
    sources, expected = right(name, 300)
    assert CudaManyBfs(*sides(name)).run(sources).tobytes() == expected.tobytes()


@pytest.mark.parametrize("part_bytes", [1, 1 << 22])
@pytest.mark.parametrize("name", ["skewed", "sparse, directed"])
def test_columns(name: str, part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vertices without rows among them, where the answer has them, told of as they arrive."""
    monkeypatch.setattr(cuda_many_host, "PART_BYTES", part_bytes)
    monkeypatch.setattr(cuda_many_bfs, "TRIED_FROM", 1 << 30)
    sources, levels = right(name, 600)
    search = CudaManyBfs(*sides(name), threads=3)
    targets = np.random.default_rng(4).permutation(search.vertices)[:777].astype(np.int64)
    targets[::7] = -1
    at = np.sort(np.random.default_rng(2).choice(700, 600, replace=False))
    for most in (None, 2, -1):
        last = FAR - 1 if most is None else most
        expected = np.where((targets < 0) | (levels[:, targets] > last), -1, levels[:, targets])
        answer, reported = np.full((700, 777), 77, np.int32), list[int]()

        def hear(begin: int, end: int) -> None:
            assert answer[at[begin:end]].tolist() == expected[begin:end].tolist()  # noqa: B023
            reported.extend(range(begin, end))  # noqa: B023

        search.run_columns(
            sources, targets, sources, most, answer=answer, at=at, on_done=OnDone(hear)
        )
        assert reported == list(range(600))
        rest = np.delete(answer, at, axis=0)
        assert (rest == 77).all()


def test_batches_are_given_up_where_single_searches_take_less_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources, expected = right("grid", 600)
    tallies = CpuManyBfs(*sides("grid"), TEAM).tally(sources, most=9, bins=3)
    for single_s, is_given_up in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(CudaManyBfs, "_single_s", lambda *_, s=single_s: s)
        # As if they did not meet.
        monkeypatch.setattr(cuda_many_bfs, "WORTH", 1 << 30)
        search = CudaManyBfs(*sides("grid"), threads=2)
        assert search.run(sources).tobytes() == expected.tobytes()
        assert search.is_one_by_one == is_given_up
        assert search.tally(sources, most=9, bins=3).tolist() == tallies.tolist()
        some_ = search.run_columns(sources[:9], np.array([4, -1, 0]), sources[:9], 5)
        near = np.where(expected[:9, [4, 0, 0]] > 5, -1, expected[:9, [4, 0, 0]])
        near[:, 1] = -1
        assert some_.tolist() == near.tolist()


def test_a_trial_times_both() -> None:
    for name in ("grid", "kronecker 13"):
        search = CudaManyBfs(*sides(name))
        sources, expected = right(name, 600)
        elapsed_s, told = search.batches.try_out(sources[:256])  # type: ignore[union-attr]
        assert elapsed_s > 0
        # Perhaps one more was looked at, which has nobody.
        last = expected[:256][expected[:256] < FAR].max()
        assert last <= int(told["depth"]) <= last + 1
        assert int(told["found"]) == (expected[:256] < FAR).sum()
        assert 0 < search._single_s(sources[:4]) < 60
        assert search.run(sources).tobytes() == expected.tobytes()


def test_too_little_memory_is_said() -> None:
    sources, _ = right("kronecker 13", 300)

    def search() -> object:
        return CudaManyBfs(*sides("kronecker 13")).run(sources)

    search()
    assert_refused_without_memory(search, 1 << 20, "does not fit the device")
    refuse_each_allocation(search, 10)


@pytest.fixture(scope="module", params=[True, False], ids=["directed", "undirected"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path_ = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    edges = skewed("float32")
    return og.build(edges, path_, rows="both", directed=request.param, device="cpu")


OPTIONS: list[dict[str, Any]] = [
    {},
    {"cutoff": 2},
    {"cutoff": -1},
    *({"reduce": name} for name in ("eccentricity", "sum", "closeness")),
    {"reduce": "sum", "cutoff": 3.5},
    {"reduce": "histogram", "bins": 4, "bin_width": 2},
]


@pytest.mark.parametrize("aimed", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_as_users_ask_for_it(
    store: og.Graph, options: dict[str, Any], aimed: bool, tmp_path: Path
) -> None:
    ids = store.original_ids()
    # Vertices without arcs are among the sources and the targets.
    given = {"targets": ids[4::5] if aimed else None, **options}
    expected = columns(og.multi_source_bfs(store, ids[::9], device="cpu", **given))
    for device in ("cuda", "auto"):
        said = Said()
        found = og.multi_source_bfs(store, ids[::9], device=device, progress=said, **given)
        assert columns(found) == expected
        assert not said.notes
        # The one that was used last.
        assert list(engine_cache._engines)[-1].key.device == "cuda"
    kept = og.multi_source_bfs(store, ids[::9], device="cuda", out=tmp_path / "d.zarr", **given)
    assert columns(kept) == expected


def test_what_was_found_one_by_one_is_said(
    store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaManyBfs, "_single_s", lambda *_: 0.0)
    monkeypatch.setattr(cuda_many_bfs, "WORTH", 1 << 30)
    ids, said = store.original_ids()[::9], Said()
    expected = columns(og.multi_source_bfs(store, ids, device="cpu"))
    assert columns(og.multi_source_bfs(store, ids, device="cuda", progress=said)) == expected
    (note,) = said.notes
    assert note.endswith("one by one, by the CUDA device: few of them meet")


@pytest.mark.parametrize(
    ("reduce", "bins"), [(None, None), ("closeness", None), ("histogram", 30_000)]
)
def test_batches_stay_within_their_plan(
    store: og.Graph, reduce: str | None, bins: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the plan has whatever the graph is made small, so that the rest shows."""
    monkeypatch.setattr(cuda_memory, "CUDA_FIXED_BYTES", 1 << 19)
    for module in (cuda_memory, cuda_many_host):
        monkeypatch.setattr(module, "PART_BYTES", 1)
    ids = store.original_ids()[::9]
    least = cuda_memory.cuda_bytes(store, "multi_source_bfs")
    if reduce is None:
        least += cuda_memory.cuda_levels_bytes(store, store.vertices)
    given: dict[str, Any] = {"reduce": reduce}
    if bins is not None:
        least += min(len(ids), cuda_many_bfs_plan.SLOTS) * (3 + bins) * 8
        given["bins"] = bins
    expected = columns(og.multi_source_bfs(store, ids, device="cpu", **given))
    given["device"] = "cuda"
    found = og.multi_source_bfs(store, ids, device_memory=least, **given)
    assert columns(found) == expected
    (pool,) = [held.pool for held in engine_cache._engines.values() if held.pool is not None]
    assert 0.5 * least < pool.most_bytes <= least
    engine_cache.release()
    said = Said()
    found = og.multi_source_bfs(store, ids, device_memory=least - 1, progress=said, **given)
    assert columns(found) == expected
    assert any("one by one on the CUDA device" in note for note in said.notes)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_batches_that_are_refused_memory(store: og.Graph, share: float) -> None:
    pool, ids = cuda().get_default_memory_pool(), store.original_ids()[::9]
    expected = columns(og.multi_source_bfs(store, ids, device="cpu"))
    engine_cache.release()
    before = used_bytes()
    og.multi_source_bfs(store, ids, device="cuda")
    whole = pool.total_bytes()
    engine_cache.release()
    pool.free_all_blocks()
    said = Said()
    try:
        pool.set_limit(size=int(share * whole))
        found = og.multi_source_bfs(store, ids, progress=said)
    finally:
        pool.set_limit(size=0)
    assert columns(found) == expected
    assert "does not fit the device" in said.notes[0]
    engine_cache.release()
    assert used_bytes() == before


def test_a_batch_that_is_refused_once_is_found_another_way(
    store: og.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ids = store.original_ids()[::3]
    og.multi_source_bfs(store, ids, device="cpu", reduce="sum", out=tmp_path / "whole.zarr")
    plain, counted = cuda_many_bfs.BfsBatches.count, list[int]()

    def refuse(self: Any, sources: IntArray, *rest: Any) -> None:
        counted.append(len(sources))
        if len(counted) > 3:
            raise MemoryBudgetError("the batch does not fit the device")
        plain(self, sources, *rest)

    monkeypatch.setattr(cuda_many_bfs.BfsBatches, "count", refuse)
    said, out = Said(), tmp_path / "d.zarr"
    og.multi_source_bfs(store, ids, device="cuda", reduce="sum", out=out, progress=said)
    whole = og.Result.open(tmp_path / "whole.zarr")
    assert columns(og.Result.open(out)) == columns(whole)
    assert any(note.startswith("going on with") for note in said.notes)


def test_kronecker_of_many_batches() -> None:
    sides_ = hub_sides(kronecker(14).shards(1)[0])
    sources = np.arange(2000)
    cpu = CpuManyBfs(*sides_, TEAM).tally(sources, bins=5)
    assert CudaManyBfs(*sides_).tally(sources, bins=5).tolist() == cpu.tolist()
