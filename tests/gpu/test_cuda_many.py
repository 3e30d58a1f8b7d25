"""Many sources at once on a CUDA device: the bytes of the CPU, on every way to ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.common.many import bellman_ford_search
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.kernels.cuda.many import host as cuda_many_host
from ooc_graph.kernels.cuda.many import pieces as cuda_many_pieces
from ooc_graph.kernels.cuda.many import prune as cuda_many_prune
from ooc_graph.kernels.cuda.many import search as cuda_many
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.many.search_plan import BlockGroups
from ooc_graph.kernels.cuda.runtime.modules import cuda, free_unused
from ooc_graph.kernels.cuda.runtime.pinned import pinned_buffer
from ooc_graph.types import Rows
from tests.gpu.graphs import GRAPHS
from tests.gpu.many import FEW, MANY, SHAPES, TEAM, negative_sides, right, sides, some
from tests.gpu.memory import assert_refused_without_memory, refuse_each_allocation


@pytest.mark.parametrize("weights", ["float32", "float64", "int32", "long paths"])
@pytest.mark.parametrize("name", SHAPES)
def test_same_bytes_as_the_cpu(name: str, weights: str) -> None:
    out, into = sides(name, weights)
    for count in (FEW, MANY):
        sources, expected = right(name, weights, count)
        found = CudaJohnson(out, into, threads=2).run(sources)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes(), count


@pytest.mark.parametrize("crews", [1, 3, 1000])
@pytest.mark.parametrize("weights", ["float32", "float64"])
def test_however_blocks_are_divided(
    crews: int, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def divided(self: CudaManySearch, lanes: int, batches: int) -> BlockGroups:
        blocks = 2 * int(cuda().cuda.Device().attributes["MultiProcessorCount"])
        size = max(1, blocks // crews)
        return BlockGroups(size, min(blocks // size, batches))

    names = "kronecker 13", "skewed, directed"
    reduced = {}
    for name in names:
        plain = CudaJohnson(*sides(name, weights)).search
        reduced[name] = plain.reduce(right(name, weights, MANY)[0]).tobytes()
    monkeypatch.setattr(CudaManySearch, "_block_groups", divided)
    monkeypatch.setattr(CudaManySearch, "_shared_bytes", lambda *_: (1 << 15, False))
    for name in names:
        sources, expected = right(name, weights, MANY)
        search = CudaJohnson(*sides(name, weights))
        assert search.run(sources).tobytes() == expected.tobytes(), name
        # Sums are added up in one order, whoever does it.
        assert search.search.reduce(sources).tobytes() == reduced[name], name


def test_later_launches_have_as_many_crews(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, expected = right("kronecker 13", "float32", MANY)
    search = CudaJohnson(*sides("kronecker 13", "float32"))
    search.expect(len(sources))
    # Half of the memory is for batches: two crews fit that.
    crew_bytes = search.search.core.rows * search.search.slots * 4
    given: list[BlockGroups] = []
    plain = CudaManySearch._block_groups

    def left() -> tuple[int, int]:
        most = 5 * crew_bytes
        return most - sum(buffer.nbytes for buffer in search.search._buffers.values()), most

    def divided(self: CudaManySearch, lanes: int, batches: int) -> BlockGroups:
        given.append(plain(self, lanes, batches))
        return given[-1]

    monkeypatch.setattr(cuda_many, "device_bytes", left)
    monkeypatch.setattr(CudaManySearch, "_block_groups", divided)
    for _ in range(3):
        assert search.run(sources).tobytes() == expected.tobytes()
    assert given[0].groups == 2
    assert given == given[:1] * len(given)


def test_arcs_that_nobody_needs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = sides("kronecker 13", "float32")
    search = CudaJohnson(out, into).search
    arcs = len(search.core.row)
    search.expect(MANY)
    assert len(search.core.row) < arcs / 2
    # Where landmarks do not reach everything in time, all arcs stay.
    monkeypatch.setattr(cuda_many_prune, "MOST_PASSES", 3)
    long = CudaJohnson(*sides("path", "float32"))
    sources, expected = right("path", "float32", MANY)
    assert long.run(sources).tobytes() == expected.tobytes()
    assert len(long.search.core.row) == len(sides("path", "float32")[0].neighbors) - 4


@pytest.mark.parametrize("scale", [2.0**120, 2.0**200])
def test_no_arcs_are_dropped_where_lengths_may_exceed_floats(scale: float) -> None:
    rows, _ = sides("kronecker 13", "float64")
    assert rows.weights is not None
    heavy = Rows(rows.offsets, rows.neighbors, rows.weights * scale)
    sources, plain = right("kronecker 13", "float64", MANY)
    search = CudaJohnson(heavy, heavy)
    arcs = len(search.search.core.row)
    # A power of two: the same bits but for the exponent.
    assert search.run(sources).tobytes() == (plain * scale).tobytes()
    assert len(search.search.core.row) == arcs


@pytest.mark.parametrize("weights", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["skewed, directed", "sparse, directed", "path, directed"])
def test_negative_weights_and_parents(name: str, weights: str) -> None:
    out, into = negative_sides(name, weights)
    assert out.weights is not None
    assert out.weights.min() < 0
    cpu, device = CpuJohnson(out, into, TEAM), CudaJohnson(out, into, threads=2)
    for count in (FEW, MANY):
        sources = some(out, count)
        assert device.run(sources).tobytes() == cpu.run(sources).tobytes()
    for found, expected in zip(
        device.run_with_parents(sources[:20]), cpu.run_with_parents(sources[:20]), strict=True
    ):
        assert found.tobytes() == expected.tobytes()


def test_passes_of_potentials_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pass for each tolerance it is doubled, and the bytes are still the CPU's."""
    out, into = negative_sides("skewed, directed", "float64")
    rows = len(out.offsets) - 1
    monkeypatch.setattr(bellman_ford_search, "PASSES", 1 / rows)
    sources = some(out, FEW)
    cpu, device = CpuJohnson(out, into, TEAM), CudaJohnson(out, into, threads=2)
    assert device.potentials is not None
    assert device.potentials.tolerance > 4 * np.finfo(np.float64).eps
    assert device.run(sources).tobytes() == cpu.run(sources).tobytes()
    monkeypatch.setattr(bellman_ford_search, "MORE_DOUBLINGS", -rows.bit_length())
    with pytest.raises(InputError, match="do not settle"):
        CudaJohnson(out, into)


def test_a_negative_cycle_is_shown() -> None:
    weights = np.array([1.0, -3.0, 1.0])
    out = Rows(np.array([0, 1, 2, 3], np.uint64), np.array([1, 2, 0], np.uint32), weights)
    into = Rows(out.offsets, np.array([2, 0, 1], np.uint32), weights[[2, 0, 1]])
    with pytest.raises(NegativeCycleError) as caught:
        CudaJohnson(out, into)
    assert sorted(caught.value.cycle) == [0, 1, 2]
    assert caught.value.weight == -1


def test_sums_that_may_not_fit_are_refused() -> None:
    out, into = sides("one edge", "float32")
    for heaviest in (np.float32(3e38), np.int64(1 << 60)):
        weights = np.full(2, heaviest)
        rows = [Rows(side.offsets, side.neighbors, weights) for side in (out, into)]
        with pytest.raises(InputError):
            CudaJohnson(rows[0], rows[0])


@pytest.mark.parametrize("part_bytes", [1, 1 << 20])
def test_answers_in_parts(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_many_host, "PART_BYTES", part_bytes)
    sources, expected = right("skewed", "float32", MANY)
    search = CudaJohnson(*sides("skewed", "float32"), threads=3)
    memory = cuda().cuda.alloc_pinned_memory(expected.nbytes)
    pinned = np.frombuffer(memory, np.float32, expected.size).reshape(expected.shape)
    for answer in (np.empty_like(expected), pinned):
        answer.fill(-1)
        assert search.run(sources, answer) is answer
        assert answer.tobytes() == expected.tobytes()
    assert search.run(sources[:0]).shape == (0, expected.shape[1])


@pytest.mark.parametrize("piece_bytes", [64, 10_000, 1 << 20])
def test_answers_in_pieces_where_they_are_wanted(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of some columns, of some rows and of all; the other rows stay as they are."""
    monkeypatch.setattr(cuda_many_host, "PART_BYTES", 1)
    monkeypatch.setattr(cuda_many_pieces, "PIECE_BYTES", piece_bytes)
    sources, right_ones = right("skewed", "float32", 200)
    search = CudaJohnson(*sides("skewed", "float32"), threads=3)
    at = np.sort(np.random.default_rng(2).choice(300, 200, replace=False))
    expected = np.full((300, right_ones.shape[1]), -1, np.float32)
    answer = expected.copy()
    expected[at] = right_ones
    every = np.arange(right_ones.shape[1])
    search.run_columns(sources, every, sources, answer=answer, at=at)
    assert answer.tobytes() == expected.tobytes()
    assert search.run(sources).tobytes() == right_ones.tobytes()


@pytest.mark.parametrize("weights", ["float32", "float64", "int64"])
@pytest.mark.parametrize("cutoff", [None, 2, -1])
def test_sources_without_arcs_are_among_the_answer(weights: str, cutoff: int | None) -> None:
    random = np.random.default_rng(9)
    u, v = 3 * random.integers(0, 300, (2, 900))
    loops = np.arange(900)
    edges = np.append(u, loops), np.append(v, loops)
    graph = og.from_edges(*edges, np.ones(1800, weights))
    every = graph.original_ids()
    for sources in (every, random.permutation(every), np.append(every[5:40], every[:5])):
        for targets in (None, every[::2]):
            given: Any = {"targets": targets, "cutoff": cutoff}
            expected = og.johnson(graph, sources, device="cpu", **given).distance
            found = og.johnson(graph, sources, device="cuda", **given).distance
            assert found.tobytes() == expected.tobytes()


def test_answers_where_no_memory_may_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def refuse(size_bytes: int) -> Any:
        refused.append(size_bytes)
        # cudaErrorMemoryAllocation
        raise cuda().cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cuda_many_host, "PART_BYTES", 1)
    sources, expected = right("skewed", "float32", MANY)
    search = CudaJohnson(*sides("skewed", "float32"), threads=3)
    monkeypatch.setattr(cuda().cuda, "PinnedMemory", refuse)
    assert search.run(sources).tobytes() == expected.tobytes()
    assert len(refused) == 1


def test_locked_memory_is_given_back() -> None:
    pool = cuda().get_default_pinned_memory_pool()
    buffer = pinned_buffer(1 << 20)
    del buffer
    assert pool.n_free_blocks()
    free_unused()
    assert not pool.n_free_blocks()


@pytest.mark.parametrize("weights", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["kronecker 9", "sparse, directed"])
def test_reductions(name: str, weights: str) -> None:
    sources, expected = right(name, weights, MANY)
    search = CudaJohnson(*sides(name, weights))
    vertices = expected.shape[1]
    targets = np.random.default_rng(4).permutation(vertices)[: vertices // 3].astype(np.int64)
    targets[::7] = -1
    far = expected == (np.inf if expected.dtype.kind == "f" else np.iinfo(np.int64).max)
    middle = np.median(expected[~far]).astype(expected.dtype)
    for aimed in (np.arange(vertices), targets):
        own = np.where(np.isin(sources, aimed), np.argmax(sources[:, None] == aimed, axis=1), -1)
        for most in (None, middle):
            columns = aimed[aimed >= 0]
            reached = ~far[:, columns] & (most is None or expected[:, columns] <= most)
            values = np.where(reached, expected[:, columns], 0)
            rows = search.run_columns(sources, aimed, own, most)
            top = np.array(np.inf if rows.dtype.kind == "f" else np.iinfo(np.int64).max)
            assert (rows[:, aimed < 0] == top).all()
            kept = np.where(reached, expected[:, columns], top.astype(rows.dtype))
            assert rows[:, aimed >= 0].tobytes() == kept.tobytes()
            found = search.reduce(sources, aimed, own, most)
            assert found["reached"].tolist() == reached.sum(axis=1).tolist()
            assert found["largest"].tobytes() == values.max(axis=1).tobytes()
            np.testing.assert_allclose(found["sum"], values.sum(axis=1, dtype=float), rtol=1e-12)
            if weights == "int64":
                assert found["exact"].tolist() == values.sum(axis=1).tolist()
            again = search.reduce(sources, aimed, own, most)
            assert again.tobytes() == found.tobytes()


def test_too_little_memory_is_said() -> None:
    out, into = sides("kronecker 13", "float32")
    sources, _ = right("kronecker 13", "float32", MANY)

    def search() -> object:
        return CudaJohnson(out, into).run(sources)

    search()
    words = "does not fit the device"
    assert_refused_without_memory(search, 1 << 20, words)
    refuse_each_allocation(search, 20, every=5)


def test_every_shape_is_there() -> None:
    assert set(SHAPES) <= set(GRAPHS)
