"""Many sources at once, as users ask for them: the API."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import InputError, UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.types import INT64_UNREACHED
from tests import small_pairs
from tests.memory_limits import held_within_least
from tests.own_process import in_own_process
from tests.small_pairs import arrays, edges, exact, listed

graph, small_chunks = small_pairs.graph, small_pairs.small_chunks


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
        patch.setattr("ooc_graph.runtime.this_process.cores", lambda: 1)
        return held_within_least(search, len(sources) * each, graph.resident_bytes("light"))


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused_when_read(weight: float) -> None:
    with pytest.raises(InputError):
        og.from_edges([1, 2], [2, 3], [0.5, weight], directed=True)
