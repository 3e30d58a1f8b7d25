"""Edges made on a CUDA device are those made on the CPU."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from tests.unit.test_kronecker import HARD_SEEDS, HASHES, REJECTING

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


def on_device(graph: Kronecker, dtype: str = "int64", start: int = 0, count: int | None = None):
    count = graph.edges if count is None else count
    source, target = cupy.empty(count, dtype), cupy.empty(count, dtype)
    weight = cupy.empty(count, "float32")
    graph.generate_into(start, source, target, weight)
    return source, target, weight


@pytest.mark.parametrize("scale", HASHES)
def test_generator_gives_the_published_bytes(scale: int) -> None:
    source, target, weight = on_device(Kronecker(scale))
    edges = np.stack([source.get(), target.get()], axis=1)
    found = (edges.tobytes(), weight.get().tobytes())
    assert tuple(hashlib.sha256(data).hexdigest() for data in found) == HASHES[scale]


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "int64"])
@pytest.mark.parametrize("start", [0, 1, 12345])
def test_generator_gives_the_bytes_of_the_cpu(dtype: str, start: int) -> None:
    graph = Kronecker(17, seeds=(11, 2**63 + 2**33 + 9))
    source, target, weight = on_device(graph, dtype, start, graph.edges - start - 7)
    expected = graph.block(start, graph.edges - 7)
    assert source.get().astype(np.int64).tobytes() == expected[0].tobytes()
    assert target.get().astype(np.int64).tobytes() == expected[1].tobytes()
    assert weight.get().tobytes() == expected[2].tobytes()


@pytest.mark.parametrize("seeds", HARD_SEEDS)
def test_generator_at_all_scales(seeds: tuple[int, int]) -> None:
    for scale in range(1, 41):
        graph = Kronecker(scale, seeds=seeds)
        for start in (0, graph.edges // 3, graph.edges - 1):
            count = min(50, graph.edges - start)
            found, expected = (
                on_device(graph, "int64", start, count),
                graph.block(start, start + count),
            )
            for mine, theirs in zip(found, expected, strict=True):
                assert mine.get().tobytes() == theirs.tobytes(), (scale, start)


@pytest.mark.parametrize(("scale", "edge"), REJECTING)
def test_generator_draws_again(scale: int, edge: int) -> None:
    found = on_device(Kronecker(scale), "uint64", edge, 1)
    expected = Kronecker(scale).block(edge, edge + 1)
    assert [int(a[0]) for a in found[:2]] == [int(a[0]) for a in expected[:2]]


def test_generator_without_weights_and_refusals() -> None:
    graph = Kronecker(8)
    source, target = cupy.empty(graph.edges, "uint32"), cupy.empty(graph.edges, "uint32")
    graph.generate_into(0, source, target)
    assert source.get().tolist() == graph.block(0, graph.edges)[0].tolist()
    graph.generate_into(0, source[:0], target[:0])
    with pytest.raises(UsageError, match="64-bit arrays"):
        Kronecker(33).generate_into(0, source, target)
    with pytest.raises(UsageError, match="32 or 64 bits"):
        graph.generate_into(0, source.astype("float32"), target.astype("float32"))
    with pytest.raises(UsageError, match="contiguous"):
        graph.generate_into(0, source[::2], target[::2])
