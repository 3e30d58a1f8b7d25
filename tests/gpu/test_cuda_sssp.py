"""SSSP on a CUDA device gives the bytes of SSSP on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import pull as cuda_sssp_pull
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.kernels.cuda.sssp import small as cuda_sssp_small
from ooc_graph.kernels.cuda.sssp.method import Method
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.pull import PushPull
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.kernels.cuda.sssp.small import OneBlock
from ooc_graph.types import Rows
from tests.gpu.comparison import CPU, compare_sssp, graph, light_sides, same_sssp
from tests.gpu.graphs import GRAPHS, WEIGHTS, path, roots
from tests.gpu.memory import assert_refused_without_memory
from tests.oracles import refused_by_both
from tests.strategies import (
    FAR_SEEDS,
    TOO_LONG,
    Arcs,
    arcs_of,
    far_arcs,
    small_arcs,
    too_far_at_first,
)

PULL_VARIANTS = {
    "small shared memory": {"WARP_QUADS": 1, "BUFFER_BYTES": 1408},
    "less shared memory": {"WARP_QUADS": 2, "BUFFER_BYTES": 2688},
    "pull early": {"ENOUGH_PUSHED": 100000},
    "pull late": {"ENOUGH_PUSHED": 3},
    "short stretches": {"PIECE_ARCS": 32},
}
NEAR_VARIANTS = {
    "short front": {"FRONT": 32, "FRONT_FAR": 64},
    "short front, short stretches": {"FRONT": 64, "PIECE_ARCS": 8, "ARCS": 1},
    "long steps": {"AGAIN_MOST": 1, "AGAIN_LEAST": 1},
    "short steps": {"AGAIN_MOST": 1000, "NARROW": 0},
}
TYPES = ["float32", "float64", "int32", "int64"]
# Rows that one block holds; of weights of 64 bits half as many.
MOST = 4096
ONE_BLOCK = [
    *(f"kronecker {scale}" for scale in (4, 8, 11)),
    *("path", "path, directed", "one edge", "dense, directed"),
    *("zero weights", "absorbed weights", "grid of plateaus"),
]
SOME = ["kronecker 15", "skewed, directed", "plateaus", "star", "grid"]


def changed(module: Any, constants: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile the sources of a module with other constants."""
    usual = module.constants
    monkeypatch.setattr(
        module, "constants", lambda shared_bytes, sums: {**usual(shared_bytes, sums), **constants}
    )


def search_by(method: type[Method], monkeypatch: pytest.MonkeyPatch) -> None:
    """Search all graphs by one method, whatever suits them; one block takes small ones only."""
    monkeypatch.setattr(cuda_sssp, "may_pull", lambda _: method is PushPull)
    if method is OneBlock:
        monkeypatch.setattr(cuda_sssp_small, "LONGEST_ROW", 1 << 30)
        monkeypatch.setattr(cuda_sssp_small, "fixed_rows_pay", lambda *_: True)
    else:
        monkeypatch.setattr(cuda_sssp, "suits_one_block", lambda *_: False)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", GRAPHS)
def test_same_bytes_as_the_cpu(name: str, weights: str) -> None:
    compare_sssp(graph(name, weights), roots(GRAPHS[name]()))


@pytest.mark.parametrize("weights", TYPES)
@pytest.mark.parametrize("method", [NearFar, OneBlock])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_small_graphs(method: type[Method], weights: str, data: st.DataObject) -> None:
    arcs = data.draw(small_arcs(weights))
    from_ = [data.draw(st.integers(0, arcs.vertices - 1)) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patched:
        search_by(method, patched)
        compare_sssp(arcs.shards(1)[0], from_)


@pytest.mark.parametrize("weights", [*TYPES, "long paths"])
@pytest.mark.parametrize("name", ONE_BLOCK)
def test_every_small_graph_by_one_block(
    name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long rows, too, which it would not take by itself."""
    search_by(OneBlock, monkeypatch)
    search = compare_sssp(graph(name, weights), roots(GRAPHS[name]()))
    most = MOST // 2 if weights == "float64" else MOST
    assert isinstance(search.method, OneBlock) == (len(search.run(0).parent) <= most)


@pytest.mark.parametrize(
    ("vertices", "spokes", "suits"),
    [(MOST, 0, True), (MOST + 1, 0, False), (MOST, 60, True), (MOST, 70, False)],
)
def test_what_suits_one_block(vertices: int, spokes: int, suits: bool) -> None:
    """Few rows, which have few arcs each."""
    at = np.arange(vertices - 1)
    source = np.concatenate([at, np.zeros(spokes, np.int64)])
    target = np.concatenate([at + 1, 100 + np.arange(spokes)])
    weight = 1 + np.arange(len(source), dtype=np.int32) % 7
    arcs = arcs_of(source, target, weight, directed=False)
    search = compare_sssp(arcs.shards(1)[0], [0, vertices - 1])
    assert isinstance(search.method, OneBlock) == suits


@pytest.mark.parametrize("weights", ["float32", "int32"])
@pytest.mark.parametrize("variant", PULL_VARIANTS)
@pytest.mark.parametrize("name", SOME)
def test_every_way_through_push_and_pull(
    variant: str, name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(cuda_sssp_pull, PULL_VARIANTS[variant], monkeypatch)
    search_by(PushPull, monkeypatch)
    compare_sssp(graph(name, weights), roots(GRAPHS[name]()))


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("weights", ["float64", "int32"])
@pytest.mark.parametrize("variant", NEAR_VARIANTS)
@pytest.mark.parametrize("name", ["skewed, directed", "plateaus", "star", "grid"])
def test_every_way_through_near_far(
    variant: str, name: str, weights: str, placed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(cuda_sssp_near, NEAR_VARIANTS[variant], monkeypatch)
    search_by(NearFar, monkeypatch)
    monkeypatch.setattr(cuda_sssp_near, "fixed_rows_pay", lambda *_: placed)
    monkeypatch.setattr(cuda_sssp_near, "KEEP_SMALL", placed)
    compare_sssp(graph(name, weights), roots(GRAPHS[name]()))


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("weights", ["float64", "int32"])
@pytest.mark.parametrize("name", ["star", "sparse, directed", "grid"])
def test_lists_without_room(
    name: str, weights: str, placed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_sssp_near, "fixed_rows_pay", lambda *_: placed)
    changed(cuda_sssp_near, {"FRONT": 64, "PIECE_ARCS": 64}, monkeypatch)
    monkeypatch.setattr(cuda_sssp_near, "NEAR_SHARE", 1 << 40)
    monkeypatch.setattr(cuda_sssp_near, "FAR_SHARE", 1 << 40)
    search_by(NearFar, monkeypatch)
    compare_sssp(graph(name, weights), roots(GRAPHS[name]()))


def test_more_stretches_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_sssp_pull, "PIECE_CAPACITY", 5)
    search_by(PushPull, monkeypatch)
    for name in ("star", "dense, directed"):
        compare_sssp(graph(name), roots(GRAPHS[name]()))


@pytest.mark.parametrize("method", [NearFar, PushPull])
def test_rows_looked_at_by_many_threads(
    method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_sssp_pull, "LONG_ROW", 4)
    monkeypatch.setattr(cuda_sssp_near, "HUB_ARCS", 3)
    monkeypatch.setattr(cuda_sssp_near, "GIANT_ARCS", 60)
    search_by(method, monkeypatch)
    for name in ("kronecker 14", "skewed, directed", "plateaus, directed"):
        for weights in ("float32", "int32") if method is PushPull else TYPES:
            compare_sssp(graph(name, weights), roots(GRAPHS[name]()))


def test_arcs_by_phase() -> None:
    shard = graph("kronecker 16")
    found = CudaSsspSearch(*light_sides(shard)).run(5)
    assert list(found.phase_arcs) == ["push", "pull", "finish", "parents"]
    assert found.phase_arcs["pull"] > 0
    assert found.phase_arcs["parents"] > 0
    arcs = len(light_sides(shard)[0].neighbors)
    assert 0 < sum(found.phase_arcs.values()) < arcs
    assert found.elapsed_s > 0
    pushed = CudaSsspSearch(*light_sides(graph("grid"))).run(5).phase_arcs
    assert pushed["pull"] == pushed["finish"] == 0
    # Each row is relaxed whole, once or more.
    assert pushed["push"] >= len(light_sides(graph("grid"))[0].neighbors)
    assert pushed["parents"] > 0


@pytest.mark.parametrize("weights", [*TYPES, "long paths"])
@pytest.mark.parametrize("name", ["kronecker 14", "skewed, directed", "plateaus", "pieces"])
def test_answers_on_the_device_are_named_by_original_ids(name: str, weights: str) -> None:
    shard = graph(name, weights)
    rows = shard.dealing.rows
    original_of = np.random.default_rng(1).permutation(rows + 17)[:rows]
    search, cpu = CudaSsspSearch(*light_sides(shard), original_of=original_of), CPU.sssp(shard)
    none = np.iinfo(np.uint32).max
    for root in (0, rows - 1, rows // 3):
        held, tree = search.run_on_device(root), cpu.run(root)
        parent, reached = held.parent.get(), tree.parent != none
        assert (parent[reached] == original_of[tree.parent[reached]]).all()
        assert (parent[~reached] == none).all()
        assert held.distance.dtype == tree.distance.dtype
        assert held.distance.get().tobytes() == tree.distance.tobytes()
        assert held.elapsed_s > 0
        same_sssp(search.run(root), tree)


def line(weights: list[int], dtype: str = "int64") -> Arcs:
    """A path with these weights; its first vertex is internal id `ends`[0]."""
    at = np.arange(len(weights))
    return arcs_of(at, at + 1, np.array(weights, dtype), directed=False)


ENDS = 2  # of a path of two arcs: by falling degree its middle comes first, its far end last


@pytest.mark.parametrize("method", [NearFar, PushPull, OneBlock])
@pytest.mark.parametrize(
    ("weights", "wide"),
    [
        ([2**31, 2**31 - 2], False),
        ([2**31, 2**31 - 1], True),
        ([2**31, 2**31], True),
        ([1, 2**32 - 3], False),
        ([1, 2**32 - 2], True),
        ([0, 2**32 - 2], False),
        ([0, 2**32 - 1], True),
        ([2**33, 2**40], True),
        ([1, 2**63 - 3], True),
    ],
)
def test_integers_beyond_32_bits_are_summed_in_64(
    weights: list[int], wide: bool, method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_by(method, monkeypatch)
    shard = line(weights).shards(1)[0]
    search = compare_sssp(shard, [ENDS])
    assert search._sums.wide == wide
    assert search.run(ENDS).distance.max() == sum(weights)


def test_a_search_is_repeated_only_where_a_distance_is_too_long() -> None:
    shard = line([2**31, 2**31, 5, 7]).shards(1)[0]
    search, cpu = CudaSsspSearch(*light_sides(shard)), CPU.sssp(shard)
    middle = int(np.argmin([cpu.run(root).distance.max() for root in range(5)]))
    same_sssp(search.run(middle), cpu.run(middle))
    assert search._sums.wide == (cpu.run(middle).distance.max() > 2**32 - 2)
    assert compare_sssp(graph("path", "long paths"), [0, 5])._sums.wide
    assert not compare_sssp(graph("kronecker 12", "long paths"), [0, 5])._sums.wide


@pytest.mark.parametrize("weights", [[2**62, 2**62 - 1], [2**62, 2**62], [2**63 - 1, 0]])
def test_distances_too_long_for_int64(weights: list[int]) -> None:
    shard = line(weights).shards(1)[0]
    for search in (CPU.sssp(shard), CudaSsspSearch(*light_sides(shard))):
        with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
            search.run(ENDS)


@pytest.mark.parametrize(
    ("weights", "most"), [("float32", 3e38), ("float64", 1.7e308), ("int64", 2**63 - 1)]
)
def test_an_arc_too_long_that_no_path_takes_does_no_harm(weights: str, most: float) -> None:
    source, target = np.array([0, 1, 0]), np.array([1, 2, 2])
    weight = np.array([1, 1, most], weights)
    compare_sssp(arcs_of(source, target, weight, directed=False).shards(1)[0], [0, 1, 2])


@pytest.mark.parametrize(
    ("weights", "most", "words"),
    [("float32", 3e38, "float32.*float64"), ("float64", 1.7e308, "float64.*scale them down")],
)
def test_distances_too_long_for_floats(weights: str, most: float, words: str) -> None:
    far = np.full(3, most, weights)
    shard = arcs_of(np.arange(3), np.arange(1, 4), far, directed=False).shards(1)[0]
    for search in (CPU.sssp(shard), CudaSsspSearch(*light_sides(shard))):
        with pytest.raises(InputError, match=f"exceeds the largest {words}"):
            search.run(3)


@pytest.mark.parametrize("weights", TOO_LONG)
def test_a_vertex_that_is_too_far_on_one_way_is_reached_on_another(weights: str) -> None:
    arcs = too_far_at_first(weights)
    compare_sssp(arcs.shards(1)[0], list(range(arcs.vertices)))


@pytest.mark.parametrize("method", [PushPull, NearFar, OneBlock])
@pytest.mark.parametrize("weights", TOO_LONG)
def test_sums_that_are_too_long_on_many_ways(
    weights: str, method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_by(method, monkeypatch)
    for seed in FAR_SEEDS:
        arcs = far_arcs(weights, seed)
        shard = arcs.shards(1)[0]
        if weights == "uint32":
            # Too long for 32 bits alone, which only a new search sums in.
            for root in range(arcs.vertices):
                compare_sssp(shard, [root])
        else:
            search = CudaSsspSearch(*light_sides(shard))
            refused_by_both(search, CPU.sssp(shard), same_sssp, arcs.vertices)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_integers_of_every_size(dtype: str) -> None:
    shard = graph("skewed, directed", "int32")
    out, into, tuples = light_sides(shard)
    least = [
        Rows(rows.offsets, rows.neighbors, np.minimum(rows.weights, 127)) for rows in (out, into)
    ]
    given = [Rows(rows.offsets, rows.neighbors, rows.weights.astype(dtype)) for rows in least]
    search, same_as = CudaSsspSearch(*given, tuples), CudaSsspSearch(*least, tuples)
    for root in (0, 77):
        same_sssp(search.run(root), same_as.run(root))


def test_unsigned_integers_beyond_63_bits() -> None:
    source, target = np.array([0, 1, 0]), np.array([1, 2, 2])
    weight = np.array([2**32, 1, 2**64 - 1], np.uint64)
    shard = arcs_of(source, target, weight, directed=False).shards(1)[0]
    assert CudaSsspSearch(*light_sides(shard)).run(0).distance.tolist() == [0, 2**32, 2**32 + 1]
    alone = line([2**64 - 1, 1], "uint64").shards(1)[0]
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        CudaSsspSearch(*light_sides(alone)).run(ENDS)


@pytest.mark.parametrize("weights", ["float32", "float64"])
def test_searches_run_on_the_stream_of_the_caller(weights: str) -> None:
    import cupy

    with cupy.cuda.Stream(non_blocking=True):
        compare_sssp(graph("kronecker 14", weights), [0, 77])


def test_refusals() -> None:
    out, _, tuples = light_sides(graph("kronecker 8"))
    assert out.weights is not None
    search = CudaSsspSearch(out, out, tuples)
    for root in (-1, len(tuples)):
        with pytest.raises(UsageError, match="is not one of the graph's"):
            search.run(root)
    for dtype in ("float16", "bool", "complex128"):
        other = Rows(out.offsets, out.neighbors, out.weights.astype(dtype))
        with pytest.raises(UsageError, match=f"float64 or integers, not {dtype}"):
            CudaSsspSearch(other, other, tuples)
    bare = Rows(out.offsets, out.neighbors)
    with pytest.raises(UsageError, match="or integers, not none"):
        CudaSsspSearch(bare, bare, tuples)
    wide = Rows(out.offsets, out.neighbors.astype(np.uint64), out.weights)
    with pytest.raises(UsageError, match="uint32, not uint64"):
        CudaSsspSearch(wide, wide, tuples)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_too_little_memory_is_said_and_nothing_is_left(weights: str) -> None:
    given = light_sides(graph("kronecker 16", weights))
    assert_refused_without_memory(
        lambda: CudaSsspSearch(*given), 16 << 20, "SSSP on this graph does not fit the device"
    )


def test_too_little_memory_for_64_bits_is_said_and_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import cupy

    search_by(NearFar, monkeypatch)
    shard = graph("grid", "long paths")
    search = CudaSsspSearch(*light_sides(shard))

    def refuse(size: int) -> None:
        raise cupy.cuda.memory.OutOfMemoryError(size, 0)

    wanted = "distances of 64 bits on this graph"
    with cupy.cuda.using_allocator(refuse), pytest.raises(MemoryBudgetError, match=wanted):
        search.run(0)
    same_sssp(search.run(0), CPU.sssp(shard).run(0))


@pytest.mark.parametrize("weights", ["float32", "int32"])
def test_a_long_path(weights: str) -> None:
    arcs = path(70_000)
    typed = Arcs(**{**vars(arcs), "weight": WEIGHTS[weights](arcs.weight)})
    compare_sssp(typed.shards(1)[0], [0, 69_999])


@pytest.mark.parametrize("method", [NearFar, PushPull, OneBlock])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_below_the_smallest_normal_number(
    dtype: str, method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilers may be told to take such numbers for zero, and CuPy tells them so."""
    search_by(method, monkeypatch)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    shard = line([tiny, 3 * tiny, 1e5 * tiny, 0.5, 7 * tiny], dtype).shards(1)[0]
    search = compare_sssp(shard, list(range(6)))
    assert 0 < np.sort(search.run(ENDS).distance)[1] < np.finfo(dtype).smallest_normal
