"""SSSP by near-far on rows in pinned host memory: the CPU's bytes, with weights of every type."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.sums import STORED_TYPES
from ooc_graph.memory.cuda.device_facts import NearPlan
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.types import Rows, Shard
from tests.gpu import comparison
from tests.gpu.comparison import CPU, graph, same_sssp
from tests.gpu.graphs import GRAPHS, WEIGHTS, roots
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.test_cuda_tiers import LITTLE, facts_of, light_sides
from tests.said import Said
from tests.strategies import Arcs, arcs_of, grid

NAMES = ["kronecker 4", "kronecker 14", "skewed, directed", "dense, directed", "sparse, directed"]
NAMES += ["path, directed", "star", "pieces", "grid", "one edge", "zero weights", "equal weights"]
NAMES += ["plateaus", "plateaus, directed", "absorbed weights", "grid of plateaus"]
SOME = ["kronecker 14", "skewed, directed", "plateaus", "grid"]


pytestmark = pytest.mark.usefixtures("released")


def compare(shard: Shard, from_: list[int]) -> CudaTierNearSearch:
    """Compare, and give the search for more questions."""
    search, cpu = CudaTierNearSearch(*light_sides(shard)), CPU.sssp(shard)
    for root in from_:
        same_sssp(search.run(root), cpu.run(root))
    return search


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_as_the_cpu(name: str, weights: str) -> None:
    search = compare(graph(name, weights), roots(GRAPHS[name]()))
    method = search.method
    assert isinstance(method, NearFar)
    assert method._fixed == (NULL, NULL)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_rows_are_not_copied(weights: str) -> None:
    shard = graph("kronecker 14", weights)
    there = light_sides(shard)
    search = CudaTierNearSearch(*there)
    assert search._out.neighbors.data.ptr == there[0].neighbors.data.ptr
    assert search._out.weights.data.ptr == there[0].weights.data.ptr


@pytest.mark.parametrize("weights", [*WEIGHTS, "long int32"])
@pytest.mark.parametrize("name", SOME)
def test_memory_stays_within_the_plan(
    name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of 64 bits, which int32 comes to need in the middle, have room in the same plan."""
    import cupy

    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    shard = heavy(name) if weights == "long int32" else graph(name, weights)
    out, into, _ = comparison.light_sides(shard)
    assert out.weights is not None
    facts = replace(facts_of((out, into)), near=out.weights.dtype)
    plan, there, cpu = NearPlan(facts, 0), light_sides(shard), CPU.sssp(shard)
    names = np.arange(facts.rows, dtype=np.uint32)
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.bytes)
    with cupy.cuda.using_allocator(pool.malloc):
        search = CudaTierNearSearch(*there, original_of=names)
        for root in (1, facts.rows // 2, 0):
            same_sssp(search.run(root), cpu.run(root))
    if weights == "long int32":
        assert search._sums.wide
    assert 0.85 * (plan.bytes - LITTLE) <= pool.total_bytes() <= plan.bytes


def heavy(name: str) -> Shard:
    """Of 31 bits each, so that paths of three arcs are longer than 32."""
    arcs = GRAPHS[name]()
    near_the_top = np.full(len(arcs.weight), 2**31 - 1, np.int32) - np.int32(3) * (
        (arcs.source + arcs.target) % 5
    ).astype(np.int32)
    return Arcs(**{**vars(arcs), "weight": near_the_top}).shards(1)[0]


@pytest.mark.parametrize("name", ["grid", "path, directed", "sparse, directed"])
def test_integers_beyond_32_bits_are_summed_in_64(name: str) -> None:
    search = compare(heavy(name), roots(GRAPHS[name]()))
    assert search._sums.wide
    tree = search.run(0)
    reached = tree.distance < np.iinfo(np.int64).max
    assert tree.distance[reached].max() > 2**32


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_answers_on_the_device_are_named_by_original_ids(name: str, weights: str) -> None:
    shard = graph(name, weights)
    rows = shard.dealing.rows
    original_of = np.random.default_rng(1).permutation(rows + 17)[:rows].astype(np.uint32)
    search = CudaTierNearSearch(*light_sides(shard), original_of=original_of)
    cpu, none = CPU.sssp(shard), np.iinfo(np.uint32).max
    for root in (0, rows - 1):
        held, tree = search.run_on_device(root), cpu.run(root)
        parent, reached = held.parent.get(), tree.parent != none
        assert (parent[reached] == original_of[tree.parent[reached]]).all()
        assert (parent[~reached] == none).all()
        assert held.distance.dtype == tree.distance.dtype
        assert held.distance.get().tobytes() == tree.distance.tobytes()


@pytest.mark.parametrize(
    ("weights", "most", "words"),
    [
        ("float32", 3e38, "float32.*float64"),
        ("float64", 1.7e308, "float64.*scale them down"),
        ("int64", 2**62, "exceeds the largest 64-bit integer"),
    ],
)
def test_distances_that_are_too_long_are_refused(weights: str, most: float, words: str) -> None:
    far = np.full(3, most, weights)
    shard = arcs_of(np.arange(3), np.arange(1, 4), far, directed=False).shards(1)[0]
    for search in (CPU.sssp(shard), CudaTierNearSearch(*light_sides(shard))):
        with pytest.raises(InputError, match=words):
            search.run(3)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "uint64"])
def test_weights_that_no_store_has_are_refused(dtype: str) -> None:
    out, _, tuples = light_sides(graph("kronecker 8"))
    other = Rows(out.offsets, out.neighbors, cuda_modules.cuda().zeros(len(out.neighbors), dtype))
    with pytest.raises(UsageError, match=f"int64, not {dtype}"):
        CudaTierNearSearch(other, other, tuples)


@pytest.mark.parametrize("weights", ["float32", "float64", "int32", "int64"])
def test_memory_that_is_refused_is_said(weights: str) -> None:
    there = light_sides(graph("kronecker 14", weights))
    refuse_each_allocation(partial(CudaTierNearSearch, *there), 10)


# The input's types, and the stores': integers of every size, up to what 63 bits hold.
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
TYPES += ["float32", "float64"]


def weigh(dtype: str, count: int) -> np.ndarray:
    random = np.random.default_rng(5)
    if dtype.startswith("float"):
        return random.random(count).astype(dtype)
    most = {"uint32": 2**32 - 2, "uint64": 2**40}.get(dtype, 127)
    return random.integers(0, most, count, dtype=np.uint64).astype(dtype)


def build(path: Path, dtype: str, *, directed: bool) -> og.Graph:
    """Nearly all pairs of few vertices: what is of these is far below a tenth of the arcs."""
    source, target = np.triu_indices(900, 1)
    if directed:
        source, target = np.r_[source, target[::3]], np.r_[target, source[::3]]
    weight = weigh(dtype, len(source))
    return og.build((source, target, weight), path, directed=directed, shards=2, device="cpu")


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_device_that_is_too_small_is_enough(
    dtype: str, directed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device has an eighth of the rows' bytes, and what the plan reserves is made small."""
    cupy = cuda_modules.cuda()
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    built = build(tmp_path / "g.zarr", dtype, directed=directed)
    assert built.weight_dtype in STORED_TYPES
    budget = cuda_pinned.pinned_bytes(built, "sssp") // 8
    root, other = (int(built.original_of()[k]) for k in (0, 700))
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=budget)
    right = [og.sssp(built, source, device="cpu") for source in (root, other)]
    with cupy.cuda.using_allocator(pool.malloc):
        for source, expected in zip((root, other), right, strict=True):
            said = Said()
            found = og.sssp(built, source, device="cuda", device_memory=budget, progress=said)
            (note,) = (one for one in said.notes if " had " in one)
            assert "bytes of rows in pinned host memory" in note
            assert "0.0 % of the arcs (of each row none)" in note
            for name in expected.names:
                column = np.asarray(found.read(name))
                assert column.tobytes() == expected.read(name).tobytes(), name
        assert 0 < pool.total_bytes() <= budget
        engine_cache.release()


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float64"])
def test_an_answer_on_the_device_stays_within_the_budget(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = cuda_modules.cuda()
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    side = grid(150, "float32")
    weight = weigh(dtype, len(side.source))
    edges = side.source, side.target, weight
    built = og.build(edges, tmp_path / "g.zarr", directed=True, device="cpu")
    budget = cuda_pinned.least_device_bytes(built, "sssp", original_parents=True)
    budget += cuda_pinned.answer_device_bytes(built)
    root, pool = int(built.original_of()[0]), cupy.cuda.MemoryPool()
    pool.set_limit(size=budget)
    given: dict[str, Any] = {"device": "cuda", "arrays": "cupy", "device_memory": budget}
    with cupy.cuda.using_allocator(pool.malloc):
        said = Said()
        found = og.sssp(built, root, progress=said, **given)
        assert "in pinned host memory" in said.notes[-1]
        on_host = {name: found.on_host(name) for name in found.names}
        del found
        engine_cache.release()
    right = og.sssp(built, root, device="cpu")
    for name in right.names:
        assert on_host[name].tobytes() == right.read(name).tobytes(), name


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_many_sources_one_by_one(dtype: str, tmp_path: Path) -> None:
    built = build(tmp_path / "g.zarr", dtype, directed=False)
    sources, said = built.original_ids()[:5], Said()
    least = cuda_pinned.least_device_bytes(built, "sssp")
    assert least < cuda_memory.cuda_bytes(built, "sssp")
    found = og.johnson(built, sources, device="cuda", device_memory=least, progress=said)
    right = og.johnson(built, sources, device="cpu")
    for name in right.names:
        assert np.asarray(found.read(name)).tobytes() == np.asarray(right.read(name)).tobytes()
    assert re.search("one by one on the CUDA device: sssp had .* in pinned host", said.notes[-1])


def test_refused_device_memory_pins_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of all rows on the device that the allocator refuses goes on, and says so."""
    cupy = cuda_modules.cuda()
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    built = build(tmp_path / "g.zarr", "int32", directed=False)
    root, pool = int(built.original_of()[3]), cupy.cuda.MemoryPool()
    pool.set_limit(size=cuda_pinned.pinned_bytes(built, "sssp") // 2)
    said = Said()
    with cupy.cuda.using_allocator(pool.malloc):
        found = og.sssp(built, root, device="cuda", progress=said)
        right = og.sssp(built, root, device="cpu")
        for name in right.names:
            assert found.read(name).tobytes() == right.read(name).tobytes(), name
        engine_cache.release()
    assert said.notes[0].startswith("device memory was refused: sssp keeps its rows in host memory")
    assert "in pinned host memory" in said.notes[1]
