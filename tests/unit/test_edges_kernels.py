"""Searches over grouped edges: the same bytes as over rows, whatever the graph and the threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.dealt import dealt_of
from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.edge_list import search as edges_search
from ooc_graph.kernels.cpu.edge_list.grouped import (
    PIECE_EDGES,
    SEGMENT,
    ArcBlock,
    GroupedEdges,
    band_marks,
    bands_for,
    grouped,
    segment_bases,
    segment_of,
    segments_for,
)
from tests import oracles
from tests.grouped_bytes import edge_bytes, table_bytes
from tests.strategies import WEIGHTS, Arcs, arcs_of, grid, skewed, small_arcs

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}
IDS = np.dtype(np.uint32)


def blocks(arcs: Arcs, shards: int, step: int, weighted: bool) -> Iterator[ArcBlock]:
    """Out-arcs as a store gives them: shard by shard, chunk by chunk."""
    for part in arcs.shards(shards):
        rows = part.out_light
        offsets = rows.offsets.view(np.int64)
        weights = rows.weights if weighted else rows.weights[:0]
        for first in range(0, len(rows.neighbors), step):
            stop = first + step
            yield ArcBlock(
                dealt_of(part.dealing),
                offsets,
                first,
                rows.neighbors[first:stop],
                weights[first:stop],
            )


def edges_of(
    arcs: Arcs, *, weighted: bool, shards: int = 1, step: int = 1 << 20, bands: int = 4
) -> GroupedEdges:
    marks = band_marks(arcs.weight, bands) if weighted else np.empty(0, np.float32)
    source = partial(blocks, arcs, shards, step, weighted)
    return grouped(arcs.vertices, source, marks, directed=arcs.directed, weighted=weighted)


def same_sssp(arcs: Arcs, edges: GroupedEdges, root: int, threads: int = 2) -> SsspTree:
    """The tree over edges, after it was found to be that over rows, byte for byte."""
    tree = DEVICES[threads].edges_sssp(edges, IDS).run(root)
    rows = DEVICES[1].sssp(arcs.shards(1)[0]).run(root)
    assert tree.distance.dtype == rows.distance.dtype
    assert tree.distance.tobytes() == rows.distance.tobytes()
    assert tree.parent.dtype == rows.parent.dtype
    assert tree.parent.tobytes() == rows.parent.tobytes()
    return tree


def same_bfs(arcs: Arcs, edges: GroupedEdges, root: int, threads: int = 2) -> BfsTree:
    tree = DEVICES[threads].edges_bfs(edges, IDS).run(root)
    rows = DEVICES[1].bfs(arcs.shards(1)[0]).run(root)
    assert tree.level.dtype == rows.level.dtype
    assert tree.level.tobytes() == rows.level.tobytes()
    assert tree.parent.dtype == rows.parent.dtype
    assert tree.parent.tobytes() == rows.parent.tobytes()
    np.testing.assert_array_equal(tree.level_vertices, rows.level_vertices)
    return tree


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_small_graphs(dtype):
    @settings(max_examples=60, deadline=None)
    @given(
        small_arcs(dtype),
        st.sampled_from([1, 2, 4]),
        st.integers(1, 50),
        st.integers(1, 5),
        st.sampled_from([1, 2, 3]),
        st.data(),
    )
    def run(arcs, shards, step, bands, threads, data):
        root = data.draw(st.integers(0, arcs.vertices - 1))
        weighted = edges_of(arcs, weighted=True, shards=shards, step=step, bands=bands)
        same_sssp(arcs, weighted, root, threads)
        same_bfs(arcs, edges_of(arcs, weighted=False, step=step), root, threads)

    run()


@settings(max_examples=60, deadline=None)
@given(small_arcs("float32"), st.data())
def test_small_graphs_against_plain_searches(arcs, data):
    """Not only like the rows, but right."""
    root = data.draw(st.integers(0, arcs.vertices - 1))
    graph, none = arcs.lists(), np.iinfo(IDS).max
    tree = DEVICES[2].edges_bfs(edges_of(arcs, weighted=False), IDS).run(root)
    parent, level = oracles.bfs(graph, root)
    assert tree.level.tolist() == level
    assert tree.parent.tolist() == [none if p < 0 else p for p in parent]
    found = DEVICES[2].edges_sssp(edges_of(arcs, weighted=True), IDS).run(root)
    best = oracles.distances(graph, root, arcs.weight.dtype)
    parent = oracles.sssp_parents(graph, root, best, arcs.weight.dtype)
    assert found.distance.tolist() == [np.inf if d is None else d for d in best]
    assert found.parent.tolist() == [none if p < 0 else p for p in parent]


@pytest.mark.parametrize(
    ("dtype", "directed"),
    [("float32", False), ("float64", True), ("int32", False), ("int64", True)],
)
def test_graphs_of_many_segments(dtype, directed):
    arcs = skewed(150_000, 500_000, dtype, directed=directed, seed=7)
    assert arcs.vertices > SEGMENT
    weighted = edges_of(arcs, weighted=True, shards=2, step=70_001, bands=8)
    plain = edges_of(arcs, weighted=False, shards=4, step=99_999)
    assert len(np.unique(weighted.head)) == weighted.segments
    for root, threads in ((0, 1), (arcs.vertices // 2, 2), (arcs.vertices - 1, 3)):
        same_sssp(arcs, weighted, root, threads)
        same_bfs(arcs, plain, root, threads)


@pytest.mark.slow
def test_64_bit_ids():
    arcs = skewed(3000, 9000, "float32", directed=False, seed=4)
    wide = np.dtype(np.uint64)
    tree = DEVICES[2].edges_sssp(edges_of(arcs, weighted=True), wide).run(5)
    rows = DEVICES[1].sssp(arcs.shards(1, "uint64")[0]).run(5)
    assert tree.parent.tobytes() == rows.parent.tobytes()
    levels = DEVICES[2].edges_bfs(edges_of(arcs, weighted=False), wide).run(5)
    assert (
        levels.parent.tobytes()
        == DEVICES[1].bfs(arcs.shards(1, "uint64")[0]).run(5).parent.tobytes()
    )


def path(vertices: int, *, directed: bool) -> tuple[Arcs, int]:
    """A path, and the internal id of the end that all of it is reached from."""
    ends = np.arange(vertices)
    arcs = arcs_of(ends[:-1], ends[1:], np.ones(vertices - 1, np.float32), directed=directed)
    if directed:
        return arcs, oracles.reverse(arcs.lists()).index([])
    return arcs, int(np.flatnonzero(arcs.tuples == 1)[0])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("vertices", [2, 254, 255, 256, 257, 700])
def test_levels_beyond_one_byte(vertices, directed, monkeypatch):
    arcs, root = path(vertices, directed=directed)
    widened = []
    launch = edges_search.CpuEdgesBfs._launch

    def spy(self, control, level, root, depth):
        widened.append((level.dtype.itemsize, depth))
        launch(self, control, level, root, depth)

    monkeypatch.setattr(edges_search.CpuEdgesBfs, "_launch", spy)
    tree = same_bfs(arcs, edges_of(arcs, weighted=False), root)
    assert tree.level.max() == vertices - 1
    assert widened == [(1, 0), *([(4, 254)] if vertices > 255 else [])]
    np.testing.assert_array_equal(tree.level_vertices, np.ones(vertices))


def test_a_search_after_one_of_many_levels_starts_anew():
    arcs, root = path(700, directed=False)
    search = DEVICES[2].edges_bfs(edges_of(arcs, weighted=False), IDS)
    first = search.run(root).copy()
    for _ in range(2):
        middle = search.run(0)
        assert middle.level[0] == 0
        assert (middle.level >= 0).all()
    assert search.run(root).level.tobytes() == first.level.tobytes()


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_grid(dtype):
    arcs = grid(60, dtype)
    same_sssp(arcs, edges_of(arcs, weighted=True), 1234)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("value", [0, 3])
def test_equal_weights(dtype, value):
    arcs = skewed(3000, 9000, dtype, directed=False, seed=2)
    arcs = Arcs(**{**vars(arcs), "weight": np.full_like(arcs.weight, value)})
    for threads in DEVICES:
        same_sssp(arcs, edges_of(arcs, weighted=True), 11, threads)


@pytest.mark.parametrize("directed", [False, True])
def test_absorbed_weights_make_plateaus(directed):
    ends = np.arange(400)
    source, target = np.r_[0, ends[1:-1], ends[1:-9]], np.r_[1, ends[2:], ends[10:]]
    weight = np.ones(len(source), np.float32)
    weight[0] = 2.0**25
    arcs = arcs_of(source, target, weight, directed=directed)
    into = oracles.reverse(arcs.lists())
    root = into.index([]) if directed else int(np.flatnonzero(arcs.tuples == 1)[0])
    tree = same_sssp(arcs, edges_of(arcs, weighted=True), root)
    assert len(set(tree.distance.tolist())) < 20


@pytest.mark.parametrize("last", [0, 1, 2])
def test_sums_around_the_largest_int64(last):
    arcs = arcs_of([0, 1, 2], [1, 2, 3], np.array([2**62, 2**62 - 2, last]), directed=True)
    root, edges = oracles.reverse(arcs.lists()).index([]), edges_of(arcs, weighted=True)
    if last == 0:
        same_sssp(arcs, edges, root)
        return
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        DEVICES[1].edges_sssp(edges, IDS).run(root)


def test_overflow_off_the_shortest_paths_is_no_error():
    big = 2**63 - 2
    for directed in (True, False):
        arcs = arcs_of([0, 1, 0, 2], [1, 2, 2, 1], np.array([big, big, 5, 6]), directed=directed)
        for root in range(arcs.vertices):
            same_sssp(arcs, edges_of(arcs, weighted=True), root)


@pytest.mark.parametrize(("dtype", "advice"), [("f4", "use float64"), ("f8", "scale them down")])
@pytest.mark.parametrize("directed", [False, True])
def test_float_sums_that_overflow_are_refused(dtype, advice, directed):
    huge = 0.9 * float(np.finfo(dtype).max)
    arcs = arcs_of([0, 1, 2], [1, 2, 3], np.array([huge, huge, 1], dtype), directed=directed)
    root = oracles.reverse(arcs.lists()).index([]) if directed else _end_of_heavy(arcs)
    with pytest.raises(InputError, match=f"exceeds the largest float.*{advice}"):
        DEVICES[2].edges_sssp(edges_of(arcs, weighted=True), IDS).run(root)


def _end_of_heavy(arcs: Arcs) -> int:
    """The end of the path whose edge is heavy."""
    ends = np.flatnonzero(arcs.tuples == 1)
    return next(int(v) for v in ends if arcs.lists()[v][0][1] > 1)


def test_every_edge_stands_once_in_its_group():
    arcs = skewed(150_000, 400_000, "float32", directed=False, seed=9)
    edges = edges_of(arcs, weighted=True, shards=2, bands=6)
    held = np.diff(edges.begin)
    base = segment_bases(arcs.vertices)
    tail = base[np.repeat(edges.tail, held)] + (edges.ends & 0xFFFF)
    head = base[np.repeat(edges.head, held)] + (edges.ends >> 16)
    assert (tail < head).all()
    once = arcs.source < arcs.target
    expected = np.lexsort((arcs.target[once], arcs.source[once]))
    found = np.lexsort((head, tail))
    np.testing.assert_array_equal(tail[found], arcs.source[once][expected])
    np.testing.assert_array_equal(head[found], arcs.target[once][expected])
    np.testing.assert_array_equal(edges.weights[found], arcs.weight[once][expected])
    assert held.min() > 0
    assert held.max() <= PIECE_EDGES
    np.testing.assert_array_equal(
        edges.lightest,
        [edges.weights[a:b].min() for a, b in zip(edges.begin, edges.begin[1:], strict=False)],
    )
    order = edges.head.astype(np.int64) * edges.segments + edges.tail
    assert (np.diff(order) >= 0).all()


def test_bytes_are_half_of_the_rows():
    arcs = skewed(24_000, 600_000, "float32", directed=False, seed=5)
    edges, rows = edges_of(arcs, weighted=True), arcs.shards(1)[0].out_light
    assert edge_bytes(edges) == 8 * len(arcs.source) // 2
    assert 2 * edge_bytes(edges) == rows.neighbors.nbytes + rows.weights.nbytes
    assert table_bytes(edges) < edge_bytes(edges) / 20
    assert edge_bytes(edges_of(arcs, weighted=False)) == 4 * len(arcs.source) // 2


def test_light_bands_spare_most_of_a_skewed_graph():
    arcs = skewed(24_000, 900_000, "float32", directed=False, seed=5)
    edges = edges_of(arcs, weighted=True, bands=16)
    search = DEVICES[2].edges_sssp(edges, IDS)
    phases = search.run(arcs.vertices - 1).phase_arcs
    assert search.passes > 4
    assert phases["relax"] < 3 * len(edges.ends)
    assert phases["parents"] < len(edges.ends)


@pytest.mark.parametrize(
    "vertices", [0, 1, 2, 511, 512, 513, 1024, 65_535, 65_536, 65_537, 200_000]
)
def test_segments_cover_all_ids_in_order(vertices):
    base = segment_bases(vertices)
    assert len(base) == segments_for(vertices) + 1
    assert base[0] == 0
    assert base[-1] == vertices
    lengths = np.diff(base)
    assert (lengths > 0).all()
    assert (lengths <= SEGMENT).all()
    for vertex in {*base[:-1].tolist(), *(base[1:] - 1).tolist()} - {-1}:
        segment = segment_of(vertex)
        assert base[segment] <= vertex < base[segment + 1]


def test_bands_follow_the_edges():
    assert bands_for(0, 0, directed=False) == 1
    assert bands_for(1 << 30, 4, directed=True) > bands_for(1 << 17, 4, directed=True)
    assert bands_for(1 << 17, 4, directed=False) >= bands_for(1 << 17, 4, directed=True)
    marks = band_marks(np.arange(1000, dtype=np.float32), 10)
    assert len(marks) == 9
    assert (np.diff(np.diff(marks)) > 0).all()
    assert len(band_marks(np.full(10, 3), 8)) == 1
