"""Edges and rows made on a CUDA device are those made on the CPU."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.build.rows import DeviceGraph, build_rows
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.shards.in_memory import MemoryGraph, build_in_memory
from tests.gpu.memory import assert_refused_without_memory
from tests.unit.test_build_oracle import ListSource
from tests.unit.test_kronecker import HARD_SEEDS, HASHES, REJECTING

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
ORDERS = (("hub",), ("light",), ("hub", "light"))


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


def check(graph: DeviceGraph, expected: MemoryGraph) -> None:
    stored = expected.stored
    found = {"original_of": graph.original_of, "internal_of": graph.internal_of}
    found["tuples"] = graph.tuples
    for side, orders in (
        ("out", {"hub": graph.out_hub, "light": graph.out_light}),
        ("in", {"hub": graph.into_hub, "light": graph.into_light}),
    ):
        for order, rows in orders.items():
            if rows is None or (side == "in" and not graph.directed):
                continue
            group = f"shards/00000/{side}/{order}"
            found |= {f"{group}/offsets": rows.offsets, f"{group}/neighbors": rows.neighbors}
            if rows.weights is not None:
                found[f"{group}/weights"] = rows.weights
    assert found.keys() == stored.arrays.keys()
    for name, array in found.items():
        theirs = stored.read(name)
        assert array.dtype == theirs.dtype, name
        assert array.get().tobytes() == theirs.tobytes(), name
    assert graph.self_loops == expected.attributes["self_loops"]
    assert graph.edges == expected.attributes["edges"]


def compare(source, target, weight, vertices: int, orders, directed: bool, **options) -> None:
    ids = options.pop("ids", "int64")
    held = ListSource(
        source, target, weight if "light" in orders else None, directed, (0, vertices)
    )
    device = [cupy.asarray(source.astype(ids)), cupy.asarray(target.astype(ids))]
    graph = build_rows(
        *device,
        cupy.asarray(weight),
        vertices=vertices,
        directed=directed,
        orders=orders,
        **options,
    )
    check(graph, build_in_memory(held, orders, 2))


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("range_arcs", [1, 40, None])
def test_random_edges(orders: tuple[str, ...], directed: bool, range_arcs: int | None) -> None:
    random = np.random.default_rng(3)
    for vertices, edges in ((2, 1), (5, 60), (300, 90), (4000, 3000), (40, 5000)):
        if range_arcs == 1 and edges > 100:
            continue
        source = (vertices * random.random(edges) ** 2).astype(np.int64)
        target = random.integers(0, vertices, edges)
        source[0], target[0] = 0, 1
        values = np.array([0.0, -0.0, 0.5, 0.25, 3e-9, 7], np.float32)
        weight = random.choice(values, edges)
        compare(source, target, weight, vertices, orders, directed, range_arcs=range_arcs)


@pytest.mark.parametrize("ids", ["uint32", "int64", "uint64"])
@pytest.mark.parametrize("directed", [False, True])
def test_kronecker_rows(ids: str, directed: bool) -> None:
    graph = Kronecker(15)
    edges = graph.block(0, graph.edges)
    compare(*edges, graph.vertices, ("hub", "light"), directed, ids=ids, range_arcs=100_000)


def test_edges_to_answers_without_leaving_the_device() -> None:
    kronecker = Kronecker(14)
    edges = on_device(kronecker, "uint32")
    graph = build_rows(*edges, vertices=kronecker.vertices, orders=("hub", "light"))
    out, light = graph.out_hub, graph.out_light
    assert out is not None
    assert light is not None
    tree = CudaBfsSearch(out, out, original_of=graph.original_of).run_on_device(0)
    other = CudaSsspSearch(light, light, graph.tuples, original_of=graph.original_of)
    paths = other.run_on_device(0)
    reached = tree.level.get() != 255
    assert (np.isfinite(paths.distance.get()) == reached).all()
    assert int(tree.parent[0]) == int(paths.parent[0]) == int(graph.original_of[0])
    assert reached.sum() > kronecker.vertices / 2


def test_only_self_loops() -> None:
    ends = cupy.arange(5, dtype="uint32")
    graph = build_rows(ends, ends, vertices=5)
    assert graph.self_loops == 5
    assert len(graph.original_of) == 0
    assert graph.internal_of.get().tolist() == [-1] * 5
    assert graph.out_hub is not None
    assert graph.out_hub.offsets.get().tolist() == [0]


def test_refusals() -> None:
    ends = cupy.arange(5, dtype="uint32")
    with pytest.raises(InputError, match=r"1 edges have an end.*0 to 3"):
        build_rows(ends, ends, vertices=4)
    negative = cupy.asarray([-1, 2], "int64")
    with pytest.raises(InputError, match="2 edges have an end that is no vertex"):
        build_rows(negative, negative[::-1], vertices=4)
    with pytest.raises(UsageError, match="uint32, int64 or uint64, not int32"):
        build_rows(ends.astype("int32"), ends.astype("int32"), vertices=5)
    with pytest.raises(UsageError, match="one length"):
        build_rows(ends, ends[1:], vertices=5)
    with pytest.raises(UsageError, match="a device takes 1 to"):
        build_rows(ends, ends, vertices=1 << 32)
    with pytest.raises(UsageError, match="hub and light, not heavy"):
        build_rows(ends, ends, vertices=5, orders=("heavy",))
    for weight in (None, ends.astype("float64")):
        with pytest.raises(UsageError, match="weights of type float32, not"):
            build_rows(ends, ends, weight, vertices=5, orders=("light",))


def test_too_little_memory_is_said_and_nothing_is_left() -> None:
    graph = Kronecker(14)
    source, target, _ = on_device(graph, "uint32")
    assert_refused_without_memory(
        lambda: build_rows(source, target, vertices=graph.vertices),
        9 << 20,
        "sorting these edges does not fit the device",
    )
