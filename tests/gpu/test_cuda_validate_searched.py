"""Answers that a CUDA device found and scattered are validated there as by the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime import scatter
from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder, reached_tuples
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import INT64_UNREACHED, EdgeBlock
from ooc_graph.validate import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator
from tests.gpu.validated import cut
from tests.unit import test_validate_bfs as bfs_cases
from tests.unit import test_validate_sssp as sssp_cases

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
SCALE = 12


@pytest.fixture(scope="module")
def searched():
    """64 answers of both searches by original id, on the device, and the edges there."""
    kronecker = Kronecker(SCALE)
    ends = [cupy.empty(kronecker.edges, "uint32") for _ in range(2)]
    weight = cupy.empty(kronecker.edges, "float32")
    kronecker.generate_into(0, *ends, weight)
    graph = og.from_edges(*kronecker.block(0, kronecker.edges), vertices=kronecker.vertices)
    hub, light = graph.load("hub").out_hub, graph.load("light").out_light
    assert hub is not None
    assert light is not None
    named = {"original_of": graph.original_of()}
    searches = {
        "bfs": CudaBfsSearch(hub, hub, **named),
        "sssp": CudaSsspSearch(light, light, graph.tuples(), **named),
    }
    internal_of = graph.internal_of()
    keys = kronecker.search_keys(64, degree=internal_of >= 0)
    order = OriginalOrder(cupy.asarray(internal_of))
    found = {}
    for kernel, search in searches.items():
        found[kernel] = []
        for key in keys:
            tree = search.run_on_device(int(internal_of[key]))
            measure = tree.level if kernel == "bfs" else tree.distance
            found[kernel].append((int(key), *order.columns(tree.parent, measure)))
    return kronecker, ends, weight, found


@pytest.mark.parametrize("answers", [1, 7, 64])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_searched_answers(searched, kernel, answers) -> None:
    """What the searches found is right; of some answers one entry is changed."""
    kronecker, ends, weight, found = searched
    kind, index = (
        CudaBfsValidator if kernel == "bfs" else CudaSsspValidator,
        VertexIndex.dense(0, kronecker.vertices),
    )
    rng = np.random.default_rng(answers)
    for harm in (0, 1):
        check, twins = kind(kronecker.vertices, answers), []
        for number, (root, *columns) in enumerate(found[kernel][:answers]):
            parent, measure = (column.copy() for column in columns)
            if harm and number % 3 == 0:
                at = int(rng.integers(kronecker.vertices))
                if number % 2:
                    parent[at] = root
                else:
                    measure[at] = measure[int(rng.integers(kronecker.vertices))]
            check.add(root, parent, measure)
            host, far = parent.get().astype(np.int64), measure.get()
            host[host == 0xFFFFFFFF] = -1
            if kernel == "bfs":
                level = far.astype(np.int32)
                level[far == 255] = -1
                twins.append(BfsAnswer(root, host, level, index))
            else:
                twins.append(SsspAnswer(root, host, far, index))
        block, edges = 10_000, EdgeBlock(*(a.get().astype(np.int64) for a in ends), weight.get())
        for start in range(0, kronecker.edges, block):
            part = slice(start, start + block)
            check.block(*(a[part] for a in ends), weight[part] if kernel == "sssp" else None)
        blocks = cut(edges, range(block, kronecker.edges, block))
        expected = (bfs_cases.validate_bfs if kernel == "bfs" else sssp_cases.validate_sssp)(
            twins, blocks, directed=False
        )
        assert check.finish() == expected
        assert harm or all(verdict.ok for verdict in expected)


@pytest.mark.parametrize("vertices", [1000, 8192, 30_003])
@pytest.mark.parametrize("internal", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["uint8", "int32", "float32", "float64", "int64"])
def test_original_order(kind, internal, vertices, monkeypatch) -> None:
    """Blocks of original ids, the last one not full; some of their vertices have no row."""
    monkeypatch.setattr(scatter, "PART_VERTICES", 16_384)
    rng, rows = np.random.default_rng(1), vertices * 3 // 5
    internal_of, original_of = np.full(vertices, -1, internal), rng.permutation(vertices)[:rows]
    internal_of[original_of] = np.arange(rows)
    parent = rng.integers(0, rows, rows).astype(np.uint32)
    measure = rng.integers(0, 200, rows).astype(kind)
    unreached = {"uint8": 255, "int32": -1, "int64": INT64_UNREACHED}.get(kind, np.inf)
    parent[::7], measure[::7] = 0xFFFFFFFF, unreached
    tuples = rng.integers(0, 1 << 32, rows).astype(np.uint64)
    reached = parent != 0xFFFFFFFF
    expected = np.full(vertices, 0xFFFFFFFF, np.uint32), np.full(vertices, unreached, kind)
    for column, values in zip(expected, (parent, measure), strict=True):
        column[original_of] = values
    held = [cupy.asarray(array) for array in (parent, measure)]
    order = OriginalOrder(internal_of if internal == "int64" else cupy.asarray(internal_of))
    found = order.columns(*held)
    into = cupy.empty(vertices, "uint32"), cupy.empty(vertices, kind)
    assert order.columns(*held, into) is into
    for columns in (found, into):
        for column, values in zip(columns, expected, strict=True):
            assert column.get().tobytes() == values.tobytes()
    wide_kind = "int32" if kind == "uint8" else kind
    level = expected[1].astype(wide_kind)
    level[expected[1] == unreached] = -1 if kind == "uint8" else unreached
    there = expected[0] != 0xFFFFFFFF
    for names in (None, original_of.astype(np.uint32), original_of + (1 << 40)):
        ids = np.arange(rows) if names is None else names.astype(np.int64)
        above = np.full(vertices, -1)
        above[there] = ids[expected[0][there]]
        given = None if names is None else cupy.asarray(names)
        if names is not None and names.dtype == np.uint32:
            narrow, _ = order.columns(*held, into, given)
            assert narrow.get().astype(np.int32).tolist() == above.tolist()
        columns = order.wide_columns(*held, given)
        for column, values in zip(columns, (above, level), strict=True):
            assert column.dtype == values.dtype
            assert column.get().tobytes() == values.tobytes()
    sums = int(reached.sum()), int(tuples[reached].sum())
    assert reached_tuples(held[0], cupy.asarray(tuples)) == sums
    with pytest.raises(UsageError, match="columns to write to"):
        order.columns(*held, (into[0][:-1], into[1]))
    with pytest.raises(UsageError, match="one parent and one measure"):
        order.columns(held[0][:-1], held[1])
    with pytest.raises(UsageError, match="no answer has parents of int64"):
        order.columns(held[0].astype("int64"), held[1])
    with pytest.raises(UsageError, match="int32 or int64, not uint32"):
        OriginalOrder(cupy.asarray(internal_of.astype("uint32")))


def test_the_order_of_a_graph_without_rows_or_vertices() -> None:
    for vertices in (0, 5):
        order = OriginalOrder(cupy.full(vertices, -1, "int32"))
        parent, level = order.columns(cupy.empty(0, "uint32"), cupy.empty(0, "uint8"))
        assert parent.tolist() == [0xFFFFFFFF] * vertices
        assert level.tolist() == [255] * vertices
