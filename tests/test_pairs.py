"""Many sources at once, as users ask for it: the API, the command, stores, refusals."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.pairs import pairs_specs
from ooc_graph.errors import (
    DiskFullError,
    InputError,
    MemoryBudgetError,
    NegativeCycleError,
    OutputExistsError,
    UnknownVertexError,
    UsageError,
)
from ooc_graph.layout import commit, metadata, names
from ooc_graph.layout.stored import Stored
from ooc_graph.session import pair_tasks, pairs, pairs_plan, pairs_written
from ooc_graph.types import INT64_UNREACHED
from tests.command_line import LIMIT_S, call, running
from tests.memory_limits import held_within_least
from tests.own_process import in_own_process

VERTICES = 90


def edges(seed: int = 1, count: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of both signs and no negative cycle; ids with gaps, and two small pieces apart."""
    random = np.random.default_rng(seed)
    by = random.integers(0, 30, VERTICES)
    u, v = random.integers(0, VERTICES - 10, (2, count))
    u, v = np.append(u, [85, 86]), np.append(v, [86, 87])
    weight = random.integers(0, 40, len(u)) + by[u] - by[v]
    keep = u != v
    return (u * 7 + 3)[keep], (v * 7 + 3)[keep], weight[keep]


def arrays(*columns: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.array, columns))


def exact(arcs: Any, sources: list[int], targets: list[int]) -> list[list[int | None]]:
    """Bellman-Ford in Python's integers."""
    rows = []
    for source in sources:
        far: dict[int, int] = {source: 0}
        while True:
            before = dict(far)
            for u, v, w in zip(*(column.tolist() for column in arcs), strict=True):
                if u in far and far[u] + w < far.get(v, math.inf):
                    far[v] = far[u] + w
            if far == before:
                break
        rows.append([far.get(target) for target in targets])
    return rows


def listed(distance: np.ndarray) -> list[list[int | None]]:
    far = INT64_UNREACHED if distance.dtype.kind == "i" else np.inf
    return [[None if d == far else d for d in row] for row in distance.tolist()]


@pytest.fixture(scope="module")
def graph() -> og.Graph:
    return og.from_edges(*edges(), directed=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "g.zarr"
    og.build(edges(), path, directed=True)
    return path


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of three sources."""
    width = len(og.from_edges(*edges(), directed=True).original_ids())

    def length(elements: int, itemsize: int) -> int:
        return max(1, min(elements, 3 * width * 8 // itemsize))

    monkeypatch.setattr(metadata, "chunk_length", length)
    monkeypatch.setattr(pairs_plan, "LANES", (1,))
    monkeypatch.setattr(pairs_plan, "BATCHES", 1)
    return 3


def test_all_pairs_are_exact(graph: og.Graph) -> None:
    found = og.johnson(graph)
    ids = graph.original_ids().tolist()
    assert found.source.tolist() == found.vertex.tolist() == ids
    assert found.distance.dtype == np.int64
    assert listed(found.distance) == exact(edges(), ids, ids)
    assert (found.distance < 0).any()


def test_sources_and_targets_come_in_their_order(graph: og.Graph) -> None:
    sources, targets = [598, 3, 199], [605, 17, 3, 598]
    found = og.shortest_paths(graph, sources, targets=targets)
    assert found.source.tolist() == sources
    assert found.vertex.tolist() == targets
    assert listed(found.distance) == exact(edges(), sources, targets)
    frame = found.to_frame()
    assert frame.loc[598, 605] == found.distance[0, 0]


def test_vertices_without_edges_reach_themselves() -> None:
    graph = og.from_edges([0, 4], [4, 2], np.array([1.5, 2], np.float32), directed=True, vertices=6)
    found = og.johnson(graph).distance
    assert found.dtype == np.float32
    expected = np.full((6, 6), np.inf, np.float32)
    np.fill_diagonal(expected, 0)
    expected[0, 4], expected[4, 2], expected[0, 2] = 1.5, 2, 3.5
    assert found.tolist() == expected.tolist()
    lonely = og.from_edges([1], [1], [5], directed=True, vertices=3)
    assert og.johnson(lonely, [2, 1], targets=[1]).distance.tolist() == [[INT64_UNREACHED], [0]]


@pytest.mark.parametrize("directed", [True, False])
def test_rows_have_the_bits_of_single_searches(directed: bool) -> None:
    u, v, _ = edges(2)
    weight = np.random.default_rng(3).random(len(u)).astype(np.float32)
    graph = og.from_edges(u, v, weight, directed=directed)
    found = og.johnson(graph)
    for source, row in zip(found.source.tolist(), found.distance, strict=True):
        assert row.tobytes() == og.sssp(graph, source).distance.tobytes()


@pytest.mark.parametrize("zero_share", [0, 0.5])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("int64", marks=pytest.mark.slow)])
def test_parents_are_those_of_single_searches(dtype: str, zero_share: float) -> None:
    u, v, _ = edges(4)
    random = np.random.default_rng(5)
    weight = (random.random(len(u)) * 50).astype(dtype)
    weight[random.random(len(u)) < zero_share] = 0
    graph = og.from_edges(u, v, weight, directed=True)
    found = og.johnson(graph, parents=True)
    assert found.names == ("source", "vertex", "distance", "parent")
    columns = found.source.tolist(), found.distance, found.parent
    for source, row, parent in zip(*columns, strict=True):
        single = og.sssp(graph, source)
        assert row.tobytes() == single.distance.tobytes()
        assert parent.tolist() == single.parent.tolist()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "dtype",
    [
        "int64",
        pytest.param("float32", marks=pytest.mark.slow),
        pytest.param("float64", marks=pytest.mark.slow),
    ],
)
def test_parents_form_trees_of_shortest_paths(tmp_path: Path, dtype: str) -> None:
    """Weights of both signs, and between pairs of vertices cycles of weight zero."""
    u, v, w = edges()
    near = np.random.default_rng(6).integers(0, 40, 60) * 7 + 3
    by = {place: int(height) for place, height in zip(u.tolist(), w.tolist(), strict=True)}
    there = np.array([by.get(a, 0) - by.get(a + 280, 0) for a in near.tolist()])
    far = 100_000
    u = np.concatenate([u, near + far, near + 280 + far])
    v = np.concatenate([v, near + 280 + far, near + far])
    w = np.concatenate([w, there, -there]).astype(dtype)
    graph = og.build((u, v, w), tmp_path / "g.zarr", directed=True)
    found = og.johnson(graph, out=tmp_path / "d.zarr", parents=True)
    lightest: dict[tuple[int, int], float] = {}
    for a, b, weight in zip(u.tolist(), v.tolist(), w.tolist(), strict=True):
        lightest[a, b] = min(weight, lightest.get((a, b), math.inf))
    vertex = found.vertex.tolist()
    for source, row, parent in zip(
        found.source.tolist(), found.distance.tolist(), found.parent.tolist(), strict=True
    ):
        distance = dict(zip(vertex, row, strict=True))
        above = dict(zip(vertex, parent, strict=True))
        assert above[source] == source
        for v_, u_ in above.items():
            assert (u_ == -1) == (distance[v_] in (math.inf, INT64_UNREACHED))
            if u_ not in (-1, v_):
                assert distance[u_] + lightest[u_, v_] == distance[v_]
        for start in vertex:
            steps, at = 0, start
            while above[at] not in (-1, at):
                at, steps = above[at], steps + 1
                assert steps < len(vertex)
            assert at == source or above[start] == -1


def test_parents_of_targets_within_a_cutoff(graph: og.Graph) -> None:
    whole = og.johnson(graph, parents=True)
    targets = [605, 17, 3, 598]
    places = np.searchsorted(whole.vertex, targets)
    found = og.johnson(graph, targets=targets, cutoff=20, parents=True)
    within = whole.distance[:, places] <= 20
    assert np.array_equal(found.parent, np.where(within, whole.parent[:, places], -1))


def test_cutoff(graph: og.Graph) -> None:
    whole = og.johnson(graph).distance
    found = og.johnson(graph, cutoff=12.5).distance
    assert np.array_equal(found, np.where(whole > 12.5, INT64_UNREACHED, whole))
    assert (found == INT64_UNREACHED).sum() > (whole == INT64_UNREACHED).sum()


@pytest.mark.parametrize("targets", [None, [605, 17, 3, 598]])
@pytest.mark.parametrize("cutoff", [None, 20])
def test_reductions_are_those_of_the_matrix(graph: og.Graph, targets: Any, cutoff: Any) -> None:
    options = {"targets": targets, "cutoff": cutoff}
    whole = og.johnson(graph, **options).distance
    ids = graph.original_ids().tolist()
    rows = [
        {v: d for v, d in zip(targets or ids, row, strict=True) if d < INT64_UNREACHED}
        for row in whole.tolist()
    ]
    for reduce in ("eccentricity", "sum", "closeness"):
        found = og.johnson(graph, reduce=reduce, **options)
        assert found.names == ("source", "reached", reduce)
        assert found.read("reached").tolist() == [len(row) for row in rows]
        for source, value, row in zip(ids, found.read(reduce).tolist(), rows, strict=True):
            if reduce == "eccentricity":
                assert value == max(row.values(), default=0)
                continue
            total = sum(row.values())
            if reduce == "sum":
                assert value == total
                continue
            # Wasserman and Faust (1994): the inverse mean distance of those it can reach, weighted
            # by their share of all others.
            others = [v for v in row if v != source]
            share = len(others) / (graph.vertices - 1)
            if not others:
                assert value == 0
            elif total <= 0:
                assert math.isnan(value)
            else:
                assert value == pytest.approx(share / (total / len(others)), rel=1e-12)


@pytest.mark.parametrize("targets", [[1], [0, 1], [1, 0]])
def test_closeness_counts_the_source_only_where_it_is_a_target(targets: list[int]) -> None:
    graph = og.from_edges([0, 1, 0], [1, 2, 2], [3, -2, 4], directed=True)
    found = og.johnson(graph, [0], targets=targets, reduce="closeness")
    assert found.read("closeness").tolist() == [1 / 3 * 1 / 2]
    assert found.read("reached").tolist() == [len(targets)]


@pytest.mark.parametrize(("cutoff", "targets"), [(None, None), (20, [605, 17, 3, 598])])
@pytest.mark.parametrize(("bins", "width"), [(64, None), (5, 4), (1, 1), (3, 10**30)])
def test_histograms_are_those_of_the_matrix(
    graph: og.Graph, bins: int, width: int | None, cutoff: Any, targets: Any
) -> None:
    options = {"targets": targets, "cutoff": cutoff}
    whole = og.johnson(graph, **options).distance
    found = og.johnson(graph, reduce="histogram", bins=bins, bin_width=width, **options)
    assert found.names == ("source", "reached", "histogram")
    for row, counts in zip(whole.tolist(), found.histogram.tolist(), strict=True):
        expected = [0] * bins
        for distance in row:
            if distance != INT64_UNREACHED:
                expected[max(0, min(bins - 1, distance // (width or 1)))] += 1
        assert counts == expected


def test_histograms_of_floats(tmp_path: Path) -> None:
    weight = np.array([0.25, 0.5, 1e30], np.float32)
    arcs = *arrays([0, 1, 2], [1, 2, 3]), weight
    graph = og.build(arcs, tmp_path / "g.zarr", directed=True)
    out = tmp_path / "h.zarr"
    found = og.johnson(graph, [0], reduce="histogram", bins=4, bin_width=0.25, out=out)
    assert found.histogram.tolist() == [[1, 1, 0, 2]]
    tiny = og.johnson(graph, [3, 0], reduce="histogram", bins=2, bin_width=1e-300)
    assert tiny.histogram.tolist() == [[1, 0], [1, 3]]
    assert tiny.to_frame().columns.tolist() == ["source", "reached", "histogram_0", "histogram_1"]
    told = Stored.open(out).attributes
    assert (told["reduce"], told["bin_width"]) == ("histogram", 0.25)
    og.export(found, tmp_path / "h.csv")
    text = "source,reached,histogram_0,histogram_1,histogram_2,histogram_3\n0,4,1,1,0,2\n"
    assert (tmp_path / "h.csv").read_text() == text
    with pytest.raises(UsageError, match="needs a bin width"):
        og.johnson(graph, reduce="histogram")


@pytest.mark.parametrize(
    ("bins", "width"), [(0, 1), (2.5, 1), (4, 0), (4, -1), (4, math.nan), (4, "1"), (4, 0.5)]
)
def test_bins_that_are_none(graph: og.Graph, bins: Any, width: Any) -> None:
    with pytest.raises(UsageError, match="bin"):
        og.johnson(graph, [3], reduce="histogram", bins=bins, bin_width=width)


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_cutoffs_of_other_types(tmp_path: Path, dtype: str) -> None:
    weight = np.array([3, 4], dtype)
    graph = og.build((*arrays([0, 1], [1, 2]), weight), tmp_path / "g.zarr", directed=True)
    whole = og.johnson(graph).distance
    for index, cutoff in enumerate([np.float32(3.5), np.int64(3), np.float64(3), 3]):
        found = og.johnson(graph, [0], cutoff=cutoff, out=tmp_path / f"{index}.zarr")
        assert found.read("distance").tolist() == [[0, 3, whole[2, 0]]]
    for cutoff in (1e300, 10**30, 2**63 - 1):
        assert np.array_equal(og.johnson(graph, cutoff=cutoff).distance, whole)
    below = og.johnson(graph, cutoff=-1e300).distance
    assert (below == whole[2, 0]).all()
    for wrong in ("5", 10**400, math.nan, np.float32(np.inf), [3]):
        with pytest.raises(UsageError, match="give a finite distance"):
            og.johnson(graph, cutoff=wrong)


def test_store_holds_the_same_and_zarr_reads_it(
    store: Path, tmp_path: Path, small_chunks: int
) -> None:
    held = og.johnson(store)
    written = og.johnson(store, out=tmp_path / "d.zarr")
    spec = Stored.open(tmp_path / "d.zarr").spec(names.DISTANCE)
    assert spec.chunk == small_chunks
    assert spec.chunks == -(-len(held.source) // small_chunks)
    for name in held.names:
        assert written.read(name).tobytes() == held.read(name).tobytes()
    assert np.array_equal(written.to_zarr()["distance"][:], held.distance)
    assert np.array_equal(written.to_dask_array("distance").compute(), held.distance)
    Stored.open(tmp_path / "d.zarr").verify()
    assert isinstance(og.Result.open(tmp_path / "d.zarr"), og.PairsResult)
    with pytest.raises(UsageError, match="no table"):
        og.export(written, tmp_path / "d.csv")
    with pytest.raises(UsageError, match="cannot be validated"):
        og.validate(written, edges(), directed=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr"]


@contextmanager
def stopped_after(most: int) -> Iterator[list[int]]:
    """Let so many units be finished, then fail; those finished."""
    done: list[int] = []
    real, counting = pair_tasks.finish_unit, Lock()

    def finish(folder: Path, attempt: Path, number: int, *rest: Any) -> Any:
        with counting:
            if len(done) >= most:
                raise RuntimeError("stopped")
            done.append(number)
        return real(folder, attempt, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_tasks, "finish_unit", finish)
        yield done


@pytest.mark.parametrize("reduce", [None, "closeness", "histogram"])
def test_a_stopped_run_goes_on(
    store: Path, tmp_path: Path, small_chunks: int, reduce: str | None
) -> None:
    whole = og.johnson(store, out=tmp_path / "whole.zarr", reduce=reduce)
    out = tmp_path / "d.zarr"
    with stopped_after(7) as first, pytest.raises(RuntimeError, match="stopped"):
        og.johnson(store, out=out, reduce=reduce)
    assert not out.exists()
    (left,) = tmp_path.glob("d.zarr.partial-*")
    kept = {int(path.stem) for path in (left / "spill/done").glob("*.json")}
    assert kept == set(first)
    with stopped_after(1000) as again:
        found = og.johnson(store, out=out, reduce=reduce)
    assert sorted([*first, *again]) == list(range(-(-len(whole.source) // small_chunks)))
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
    assert found.read(found.names[2]).tobytes() == whole.read(whole.names[2]).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "whole.zarr"]


@pytest.mark.parametrize("failing", ["_write_documents", "_write_sidecars", "_move_into_place"])
def test_a_disk_that_fills_up_in_the_commit_costs_no_chunk(
    store: Path, tmp_path: Path, small_chunks: int, failing: str
) -> None:
    whole = og.johnson(store, out=tmp_path / "whole.zarr")
    out = tmp_path / "d.zarr"

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    owner = commit if failing == "_move_into_place" else commit.Partial
    with pytest.MonkeyPatch.context() as patch, stopped_after(1000) as first:
        patch.setattr(owner, failing, full)
        with pytest.raises(DiskFullError, match="goes on with what there is"):
            og.johnson(store, out=out)
    assert len(first) == -(-len(whole.source) // small_chunks)
    with stopped_after(1000) as again:
        og.johnson(store, out=out)
    assert again == []
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "whole.zarr"]


@pytest.mark.usefixtures("small_chunks")
def test_space_is_wanted_for_all_files_of_numbers(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.johnson(store, out=tmp_path / "whole.zarr")
    files = [path for path in (tmp_path / "whole.zarr").rglob("*") if path.is_file()]
    needed = sum(path.stat().st_size for path in files if path.suffix != ".json")
    free = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        pairs_written.shutil, "disk_usage", lambda _: free._replace(free=needed - 1)
    )
    with pytest.raises(DiskFullError, match=f"needs {needed:,} bytes more"):
        og.johnson(store, out=tmp_path / "d.zarr")


@pytest.mark.usefixtures("small_chunks")
def test_what_was_done_for_other_sources_is_not_taken_up(store: Path, tmp_path: Path) -> None:
    for cutoff in (None, 5):
        with stopped_after(2) as done, pytest.raises(RuntimeError, match="stopped"):
            og.johnson(store, out=tmp_path / "d.zarr", cutoff=cutoff)
        assert len(done) == 2
    assert len(list(tmp_path.glob("d.zarr.partial-*"))) == 1


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_other_sizes_are_not_taken_up(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_after(2) as done, pytest.raises(RuntimeError, match="stopped"):
        og.johnson(store, out=tmp_path / "d.zarr")
    assert len(done) == 2

    def larger(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2 * spec.chunk) for spec in pairs_specs(*given))

    monkeypatch.setattr(pairs, "pairs_specs", larger)
    found = og.johnson(store, out=tmp_path / "d.zarr")
    assert found.distance.tobytes() == og.johnson(store).distance.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_command_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    random = np.random.default_rng(5)
    u, v = random.integers(0, 3500, (2, 20_000))
    og.build((u, v, random.integers(1, 100, len(u))), tmp_path / "g.zarr", directed=True)
    words = ["-m", "ooc_graph", "apsp", tmp_path / "g.zarr", "--out", tmp_path / "d.zarr"]
    with running([*map(str, words), "--memory-limit", "600MB"]) as process:
        end = time.monotonic() + LIMIT_S
        while not list(tmp_path.glob("d.zarr.partial-*/spill/done/*.json")):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.002)
        process.send_signal(how)
        process.wait(LIMIT_S)
        assert process.returncode == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    assert not (tmp_path / "d.zarr").exists()
    with running([*map(str, words)]) as process:
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said
    assert "chunks done before" in said
    graph = og.open(tmp_path / "g.zarr")
    found_rows = og.Result.open(tmp_path / "d.zarr").read("distance")
    for place in (0, 1234, 3000):
        source = int(graph.original_ids()[place])
        assert found_rows[place].tobytes() == og.sssp(graph, source).distance.tobytes()


def test_two_workers_write_the_same_bytes(store: Path, tmp_path: Path) -> None:
    og.johnson(store, out=tmp_path / "here.zarr")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        og.johnson(store, out=tmp_path / "there.zarr", client=client)
        held = og.johnson(store, [17, 3], reduce="sum", client=client)
        cycle = og.build(arrays([1, 2], [2, 1], [1, -2]), tmp_path / "c.zarr", directed=True)
        with pytest.raises(NegativeCycleError):
            og.johnson(cycle, client=client)
    assert held.source.tolist() == [17, 3]
    first, second = (Stored.open(tmp_path / f"{name}.zarr") for name in ("here", "there"))
    assert first.identity == second.identity


@pytest.mark.slow
def test_a_lost_worker_is_done_without(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    u, v = random.integers(0, 4000, (2, 30_000))
    graph = og.build((u, v, random.random(len(u))), tmp_path / "g.zarr", directed=True)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Client(workers) as client,
        ThreadPoolExecutor(1) as executor,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        running_ = executor.submit(og.johnson, graph, out=tmp_path / "d.zarr", client=client)
        end = time.monotonic() + LIMIT_S
        while not list(tmp_path.glob("d.zarr.partial-*/spill/done/*.json")):
            assert time.monotonic() < end
            assert not running_.done()
            time.sleep(0.002)
        os.kill(victim, signal.SIGKILL)
        found = running_.result(timeout=LIMIT_S)
    here = og.johnson(graph, out=tmp_path / "here.zarr")
    assert Stored.open(tmp_path / "here.zarr").identity == Stored.open(tmp_path / "d.zarr").identity
    assert np.array_equal(found.source, here.source)
    assert not list(tmp_path.glob("*partial*"))


@pytest.mark.parametrize(
    ("source", "target", "weight", "directed", "cycle", "total"),
    [
        ([5, 9, 7], [9, 7, 5], [4, -3, -2], True, {5, 9, 7}, -1),
        ([1, 5, 9], [2, 9, 5], [4, -3, 2], True, {5, 9}, -1),
        ([5, 9], [9, 9], [4, -3], True, {9}, -3),
        ([5, 9], [9, 9], [4, -3], False, {9}, -3),
        ([5, 9], [9, 2], [4, -3], False, {9, 2}, -6),
        ([1, 2, 3], [2, 3, 1], [0.1, 0.2, -0.3000000001], True, {1, 2, 3}, None),
    ],
)
def test_negative_cycles_are_shown(
    tmp_path: Path,
    source: Any,
    target: Any,
    weight: Any,
    directed: bool,
    cycle: set[int],
    total: int | None,
) -> None:
    built = og.build(arrays(source, target, weight), tmp_path / "g.zarr", directed=directed)
    for graph in (built, og.from_edges(source, target, weight, directed=directed)):
        with pytest.raises(NegativeCycleError) as caught:
            og.johnson(graph, out=tmp_path / "d.zarr")
        error = caught.value
        assert set(error.cycle) == cycle
        assert error.weight == (math.fsum(weight) if total is None else total)
    assert not list(tmp_path.glob("d.zarr*"))


def test_the_command_says_the_cycle_and_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    og.build(arrays([5, 9], [9, 2], [4, -3]), tmp_path / "g.zarr", directed=False)
    words = "apsp", tmp_path / "g.zarr", "--out", tmp_path / "d.zarr", "--device", "cpu"
    monkeypatch.setattr("ooc_graph.session.cluster.local_cluster", _no_cluster)
    ended = call(monkeypatch, capsys, *words)
    assert ended.code == 3
    assert ended.out == ""
    last = ended.err.splitlines()[-1]
    assert "a cycle of 2 arcs has the weight -6" in last
    assert "there and back" in last


class _no_cluster:
    def __init__(self, _workers: int = 1) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_cycles_of_weight_zero_are_fine() -> None:
    graph = og.from_edges([0, 1, 2, 2], [1, 2, 0, 3], [0.1, 0.2, -0.3, 1], directed=True)
    found = og.johnson(graph).distance
    # The rounded sum of this cycle is 5.6e-17, on whichever side of zero.
    expected = [[0, 0.1, 0.3, 1.3], [-0.1, 0, 0.2, 1.2], [-0.3, -0.2, 0, 1]]
    np.testing.assert_allclose(found[:3], expected, rtol=0, atol=1e-15)


def test_the_command(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ooc_graph.session.cluster.local_cluster", _no_cluster)
    Path("s.txt").write_text("# some\n17\n\n 3\n598\n")
    np.save("t.npy", np.array([605, 3]))
    words = ["apsp", store, "--sources", "s.txt", "--targets", "t.npy", "--out", "d.zarr"]
    ended = call(monkeypatch, capsys, *words)
    assert ended.code == 0, ended
    assert ended.out.startswith("apsp: distances of 3 sources in ")
    found = og.Result.open("d.zarr")
    assert listed(found.read("distance")) == exact(edges(), [17, 3, 598], [605, 3])
    ended = call(
        monkeypatch, capsys, "apsp", store, "--sources", 5, "--reduce", "sum", "--out", "r.zarr"
    )
    assert ended.code == 0, ended
    reduced = og.Result.open("r.zarr")
    assert len(reduced.read("source")) == 5
    assert call(monkeypatch, capsys, "info", "--json", "r.zarr").code == 0
    again = og.johnson(store, reduced.read("source"), reduce="sum")
    assert again.read("sum").tolist() == reduced.read("sum").tolist()
    ended = call(monkeypatch, capsys, "export", "r.zarr", "r.csv")
    assert ended.code == 0, ended
    assert Path("r.csv").read_text().startswith("source,reached,sum\n")
    words = ["--reduce", "histogram", "--bins", 7, "--bin-width", 9, "--out", "h.zarr"]
    assert call(monkeypatch, capsys, "apsp", store, *words).code == 0
    counted = og.johnson(store, reduce="histogram", bins=7, bin_width=9).histogram
    assert np.array_equal(og.Result.open("h.zarr").read("histogram"), counted)


def test_the_command_gives_parents(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of the API; each arc from a parent is as long as the distances are apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ooc_graph.session.cluster.local_cluster", _no_cluster)
    Path("s.txt").write_text("17\n3\n605\n")
    words = ["apsp", store, "--sources", "s.txt", "--out", "d.zarr"]
    ended = call(monkeypatch, capsys, *words, "--parents")
    assert ended.code == 0, ended
    result = og.Result.open("d.zarr")
    distance, parent = result.read("distance"), result.read("parent")
    assert np.array_equal(parent, og.johnson(store, [17, 3, 605], parents=True).parent)
    ids = og.open(store).original_ids().tolist()
    weight: dict[tuple[int, int], int] = {}
    for u, v, w in zip(*(column.tolist() for column in edges()), strict=True):
        weight[u, v] = min(w, weight.get((u, v), w))
    found = 0
    for row, source in enumerate([17, 3, 605]):
        far = dict(zip(ids, distance[row].tolist(), strict=True))
        for vertex, before in zip(ids, parent[row].tolist(), strict=True):
            if vertex == source or far[vertex] == INT64_UNREACHED:
                assert before == (source if vertex == source else -1)
            else:
                assert far[before] + weight[before, vertex] == far[vertex]
                found += 1
    assert found > VERTICES
    ended = call(monkeypatch, capsys, *words, "--overwrite")
    assert ended.code == 0, ended
    assert "parent" not in og.Result.open("d.zarr").names
    ended = call(monkeypatch, capsys, *words, "--overwrite", "--parents", "--reduce", "sum")
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sources", "none.txt"], "cannot be read"),
        (["--sources", "word.txt"], "word.txt:2: 'two' is no vertex id"),
        (["--sources", "twice.txt"], "vertex 3 is given twice among the sources"),
        (["--sources", "empty.txt"], "no sources are given"),
        (["--sources", "unknown.txt"], "vertex 4 is not in the graph"),
        (["--targets", "unknown.txt"], "vertex 4 is not in the graph"),
        (["--sources", "0"], "0 sources are asked for"),
        (["--sources", "9" * 5000], "cannot be read"),
        (["--sources", "nothing.npy"], "nothing.npy: cannot be read as an array"),
        (["--targets", "archive.npy"], "archive.npy: cannot be read as an array"),
        (["--sources", "huge.npy"], "the file is shorter"),
        (["--sources", "objects.npy"], "objects.npy: "),
        (["--sources", "floats.npy"], "floats.npy: is no .npy file of a list of integers"),
        (["--sources", "table.npy"], "table.npy: is no .npy file of a list of integers"),
        (["--sources", "above.npy"], "9223372036854775809 is no vertex id"),
        (["--sources", "underscore.txt"], "underscore.txt:1: '1_7' is no vertex id"),
        (["--sources", "arabic.txt"], "is no vertex id"),
        (["--sources", "digits.txt"], "is no vertex id"),
        (["--sources", "wide.txt"], "'9223372036854775808' is no vertex id"),
        (["--sources", "100000"], "100000 sources are asked for"),
        (["--cutoff", "nan"], "give a finite distance"),
        (["--reduce", "mean"], "--reduce"),
        (["--reduce", "histogram", "--bins", "0"], "1 or more"),
        (["--reduce", "histogram", "--bin-width", "0.5"], "give an integer"),
    ],
)
def test_refusals(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ooc_graph.session.cluster.local_cluster", _no_cluster)
    for name, text in [("word", "3\ntwo\n"), ("twice", "3\n17\n3\n"), ("empty", "#\n")]:
        Path(f"{name}.txt").write_text(text)
    Path("unknown.txt").write_text("3\n4\n")
    files_that_are_no_lists()
    ended = call(monkeypatch, capsys, "apsp", store, "--out", "d.zarr", *words)
    assert ended.code == 2, ended
    assert message in ended.err
    # Wrong options have Click's usage before; nothing has a traceback.
    assert len(ended.err.splitlines()) == (4 if "Usage" in ended.err else 1)
    assert not list(tmp_path.glob("d.zarr*"))


def files_that_are_no_lists() -> None:
    """Files of ids that cannot be read as such."""
    Path("nothing.npy").write_bytes(b"")
    Path("archive.npy").write_bytes(b"PK\x03\x04")
    with Path("huge.npy").open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(file, header)
    np.save("objects.npy", np.array([3, "x"], object), allow_pickle=True)
    np.save("floats.npy", np.array([3.0]))
    np.save("table.npy", np.array([[3, 17]]))
    np.save("above.npy", np.array([3, 2**63 + 1], np.uint64))
    Path("underscore.txt").write_text("1_7\n")
    Path("arabic.txt").write_text("\u0663\n", encoding="utf-8")
    Path("digits.txt").write_text("9" * 5000)
    Path("wide.txt").write_text("9223372036854775808\n")


def test_refusals_of_the_api(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="list of vertex ids"):
        og.johnson(graph, 3)
    with pytest.raises(UsageError, match="list of vertex ids"):
        og.johnson(graph, [0.5])
    with pytest.raises(UsageError, match="9223372036854775809 is no vertex id"):
        og.johnson(graph, np.array([2**63 + 1], np.uint64))
    with pytest.raises(UnknownVertexError):
        og.johnson(graph, [3, 4])
    with pytest.raises(InputError, match="twice"):
        og.johnson(graph, targets=[3, 3])
    with pytest.raises(UsageError, match="no weights"):
        og.johnson(og.from_edges([1], [2]))
    with pytest.raises(UsageError, match="choose eccentricity"):
        og.johnson(graph, reduce="mean")
    with pytest.raises(UsageError, match="no parents"):
        og.johnson(graph, reduce="sum", parents=True)
    with pytest.raises(MemoryBudgetError, match="give out="):
        og.johnson(graph, memory_limit=1000)
    with pytest.raises(MemoryBudgetError, match="in one worker"):
        og.johnson(graph, memory_limit=60_000)
    with pytest.raises(InputError, match="bound"):
        og.johnson(og.from_edges([0, 1], [1, 2], [-(2**60), 2**60], directed=True))
    # What follows is refused before anything is searched.
    monkeypatch.setattr(pairs, "prepare", None)
    (tmp_path / "there.zarr").mkdir()
    with pytest.raises(OutputExistsError):
        og.johnson(graph, out=tmp_path / "there.zarr")
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(pairs_written.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFullError, match=r"needs \d\d,\d\d\d bytes more"):
        og.johnson(graph, out=tmp_path / "d.zarr")
    assert not list(tmp_path.glob("d.zarr*"))


@pytest.mark.parametrize(
    ("dtype", "by", "arcs", "options"),
    [
        ("float32", 0, 20_000, {"reduce": "sum"}),
        pytest.param("int32", 1000, 60_000, {"reduce": "sum"}, marks=pytest.mark.slow),
        ("float64", 0, 20_000, {}),
        ("float64", 0, 20_000, {"parents": True}),
    ],
)
def test_memory_stays_within_the_least_limit_that_is_accepted(
    dtype: str, by: int, arcs: int, options: Any
) -> None:
    limit, held = in_own_process(held_within_the_least_limit, dtype, by, arcs, options)
    assert limit / 3 < held <= limit


def held_within_the_least_limit(
    dtype: str, by: int, arcs: int, options: dict[str, Any]
) -> tuple[int, int]:
    """The least limit, and what a search within it holds at once."""
    random = np.random.default_rng(8)
    u, v = random.integers(0, 4000, (2, arcs))
    height = random.integers(0, by + 1, 4000)
    weight = (random.integers(1, 50, arcs) + height[u] - height[v])[u != v].astype(dtype)
    graph = og.from_edges(u[u != v], v[u != v], weight, directed=True)
    sources = graph.original_ids()[:1000]
    each = 16 if "reduce" in options else graph.vertices * 8 * (1 + ("parents" in options))
    search = partial(og.johnson, graph, sources, **options)
    with pytest.MonkeyPatch.context() as patch:
        # As on one core, where the parts that do not grow with threads weigh most.
        patch.setattr("ooc_graph.session.place.cores", lambda: 1)
        return held_within_least(search, len(sources) * each, graph.resident_bytes("light"))


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused_when_read(weight: float) -> None:
    with pytest.raises(InputError):
        og.from_edges([1, 2], [2, 3], [0.5, weight], directed=True)


def test_a_negative_self_loop_stands_in_the_attributes(tmp_path: Path) -> None:
    arcs = arrays([4, 7, 7, 9], [7, 7, 7, 9], [-5, -2, -3, -3])
    built = og.build(arcs, tmp_path / "g.zarr", directed=True)
    held = og.from_edges(*arcs, directed=True)
    for graph in (built, held):
        assert graph.attributes["negative_loop"] == {"vertex": 7, "weight": -3}
    for name, weight in (("h", [-5, 2]), ("i", [5, 2])):
        plain = og.build(arrays([4, 7], [7, 7], weight), tmp_path / f"{name}.zarr", directed=True)
        told = json.loads((plain.path / "zarr.json").read_text())["attributes"]["ooc_graph"]
        # Silence is for graphs where no self-loop could be negative.
        assert told.get("negative_loop", "silent") == (None if weight[0] < 0 else "silent")
        assert og.johnson(plain, targets=[7]).distance.tolist() == [[weight[0]], [0]]


def test_a_store_that_is_silent_on_its_self_loops_is_refused(tmp_path: Path) -> None:
    """As of versions that did not look for negative ones."""
    graph = og.build(arrays([4, 7], [7, 7], [-5, 2]), tmp_path / "g.zarr", directed=True)
    del graph.attributes["negative_loop"]
    with pytest.raises(UsageError, match="build it again"):
        og.johnson(graph)
