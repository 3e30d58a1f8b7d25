"""Answers that a CUDA device found and scattered are validated there as by the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime.scatter import scatter
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
    table = cupy.asarray(internal_of)
    found = {}
    for kernel, search in searches.items():
        found[kernel] = []
        for key in keys:
            tree = search.run_on_device(int(internal_of[key]))
            measure = tree.level if kernel == "bfs" else tree.distance
            found[kernel].append((int(key), *scatter(table, tree.parent, measure)))
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


@pytest.mark.parametrize("internal", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["uint8", "int32", "float32", "float64", "int64"])
def test_scatter(kind, internal) -> None:
    rng = np.random.default_rng(1)
    internal_of = np.full(1000, -1, internal)
    original_of = np.sort(rng.choice(1000, 600, replace=False))
    internal_of[rng.permutation(original_of)] = np.arange(600)
    parent = rng.integers(0, 1000, 600).astype(np.uint32)
    measure = rng.integers(0, 200, 600).astype(kind)
    unreached = {"uint8": 255, "int32": -1, "int64": INT64_UNREACHED}.get(kind, np.inf)
    parent[::7], measure[::7] = 0xFFFFFFFF, unreached
    has_row = internal_of >= 0
    expected = np.full(1000, 0xFFFFFFFF, np.uint32), np.full(1000, unreached, kind)
    for column, values in zip(expected, (parent, measure), strict=True):
        column[has_row] = values[internal_of[has_row]]
    held = [cupy.asarray(array) for array in (internal_of, parent, measure)]
    found = scatter(*held)
    into = cupy.empty(1000, "uint32"), cupy.empty(1000, kind)
    assert scatter(*held, into) is into
    for columns in (found, into):
        for column, values in zip(columns, expected, strict=True):
            assert column.get().tobytes() == values.tobytes()
    with pytest.raises(UsageError, match="columns to write to"):
        scatter(*held, (into[0][:-1], into[1]))
    with pytest.raises(UsageError, match="one parent and one measure"):
        scatter(held[0], held[1][:-1], held[2])
    with pytest.raises(UsageError, match="no answer has parents of int64"):
        scatter(held[0], held[1].astype("int64"), held[2])
