"""`ooc_graph.csgraph` compared with SciPy: the bytes draw a matrix and a call for both."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph as scipys

from ooc_graph import csgraph as ours
from ooc_graph.csgraph import found, matrices
from tests.fuzz.targets import Fuzzed, target

NONE = -9999
FAR = np.finfo(np.float64).max
SIGNED = "johnson", "bellman_ford"
PATHS = "dijkstra", "floyd_warshall", *SIGNED
STARTED = "breadth_first_order", "breadth_first_tree"
DTYPES = "f8", "f8", "f4", "i4", "i8", "u1", "?"


def _weights(draw: random.Random, name: str, count: int) -> Any:
    """Small integers, so that sums are exact; or, for some functions, others, near and far."""
    some = np.array([float(draw.randrange(6)) for _ in range(count)])
    kind = draw.randrange(5)
    if name in SIGNED and kind == 0:
        some[[draw.random() < 0.2 for _ in some]] = -1
    elif name in ("dijkstra", "johnson") and kind < 3:
        for value in draw.sample([np.nan, np.inf, 1e18, FAR, 5e-324, -0.0, 0.1], 2):
            some[[draw.random() < 0.2 for _ in some]] = value
    elif name in ("dijkstra", "johnson") and kind == 3:
        some = np.array([10.0 ** draw.uniform(-320, 308) for _ in some])
    elif name not in SIGNED:
        return some.astype(draw.choice(DTYPES))
    return some


def _matrix(draw: random.Random, name: str) -> Any:
    """A graph of some format; its rows may be in no order and have arcs several times."""
    vertices = draw.choice((1, 2, 3, 5, 8, 13, 21, 40))
    count = int(vertices * draw.choice((0.5, 1, 2, 3, 6)))
    rows = np.sort([draw.randrange(vertices) for _ in range(count)])
    columns = np.array([draw.randrange(vertices) for _ in range(count)])
    # SciPy's search for strong components may not end if arcs stand there several times.
    if name == "connected_components" or draw.random() < 0.5:
        at = np.unique(rows * vertices + columns, return_index=True)[1]
        rows, columns = rows[at], columns[at]
    weights = _weights(draw, name, len(rows))
    offsets = np.searchsorted(rows, np.arange(vertices + 1))
    kind = draw.choice((sparse.csr_array, sparse.csr_matrix))
    matrix = kind((weights, columns, offsets), shape=(vertices, vertices))
    form = draw.choice(("csr", "csr", "csc", "lil", "dense", "masked", "transposed"))
    if form == "transposed":
        return matrix.T
    if form == "dense":
        return matrix.toarray()
    if form == "masked":
        dense = matrix.toarray()
        return np.ma.array(dense, mask=dense == 0)
    return matrix.asformat(form)


def _indices(draw: random.Random, vertices: int) -> Any:
    """Vertices as callers may name them; some are not there."""
    some = [draw.randrange(-vertices, vertices) for _ in range(draw.choice((1, 2, 3, 12)))]
    others: tuple[Any, ...] = (
        [],
        vertices,
        [0, -vertices - 1],
        np.array([some]),
        np.array(some, "i2"),
    )
    return draw.choice((None, some[0], some, range(vertices), draw.choice(others)))


def drawn(draw: random.Random) -> tuple[str, Any, dict[str, Any]]:
    """A function's name, a matrix and further arguments."""
    name = draw.choice((*PATHS, "dijkstra", *STARTED, "connected_components"))
    matrix, options = _matrix(draw, name), dict[str, Any](directed=draw.random() < 0.5)
    vertices = matrix.shape[0]
    if name in STARTED:
        return name, matrix, {"i_start": draw.randrange(vertices), **options}
    if name not in PATHS:
        return name, matrix, {"connection": draw.choice(("weak", "STRONG", "x")), **options}
    options |= {key: draw.random() < 0.4 for key in ("unweighted", "return_predecessors")}
    if name != "floyd_warshall":
        options["indices"] = _indices(draw, vertices)
    if name == "dijkstra":
        options["limit"] = draw.choice((np.inf, np.inf, 0, 3, 4.5, -1))
        options["min_only"] = draw.random() < 0.3
    return name, matrix, options


def _called(function: Any, *given: Any, **options: Any) -> tuple[Any, type | None]:
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(*given, **options), None
    except Exception as error:  # noqa: BLE001 - both have to raise the same
        return None, type(error)


def _arrays(answer: Any) -> list[Any]:
    """An answer's arrays; of a tree its arcs in the order of rows."""
    if hasattr(answer, "sorted_indices"):
        tree = answer.sorted_indices()
        return [tree.indptr, tree.indices, tree.data]
    return [np.asarray(one) for one in (answer if isinstance(answer, tuple) else (answer,))]


def _require_trees(arcs: Any, options: dict[str, Any], distance: Any, above: Any) -> None:
    """Predecessors lead by the lightest arcs to where the distance is 0, and there is no cycle."""
    lightest = np.full(arcs.shape, np.inf)
    weights = np.ones(arcs.nnz) if options["unweighted"] else arcs.data.astype(np.float64)
    np.fmin.at(lightest, (arcs.row, arcs.col), weights)
    lightest = lightest if options["directed"] else np.fmin(lightest, lightest.T)
    vertices = np.arange(arcs.shape[0])
    for steps, over in zip(distance.reshape(-1, len(vertices)), above, strict=True):
        has_one = over != NONE
        one = over[has_one]
        with np.errstate(over="ignore"):
            ends = steps[one] + lightest[one, vertices[has_one]]
        np.testing.assert_array_equal(ends, steps[has_one])
        root = np.where(has_one, over, vertices)
        for _ in vertices:
            root = np.where(has_one[root], over[root], root)
        assert not has_one[root].any()


def _parts(matrix: Any) -> list[Any]:
    """Copies of the arrays that a matrix consists of."""
    parts = ("data", "indices", "indptr", "rows", "mask")
    return [np.array(getattr(matrix, part)) for part in parts if hasattr(matrix, part)]


def _require_same(name: str, matrix: Any, options: dict[str, Any], few: int) -> None:
    before, same = _parts(matrix), matrix.copy()
    with patch.object(matrices, "SMALL_ARCS", 1), patch.object(found, "FEW_SOURCES", few):
        mine, error = _called(getattr(ours, name), matrix, **options)
    for part, other in zip(_parts(matrix), before, strict=True):
        np.testing.assert_array_equal(part, other)
    others, their_error = _called(getattr(scipys, name), same, **options)
    assert error is their_error
    if error is not None:
        return
    pairs = list(zip(_arrays(mine), _arrays(others), strict=True))
    for one, other in pairs:
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    if name in PATHS and len(pairs) > 1:
        # Among several shortest paths the choice may differ.
        for one, other in pairs[1:]:
            np.testing.assert_array_equal(one == NONE, other == NONE)
        above = pairs[1][0].reshape(-1, matrix.shape[0])
        arcs = matrices.as_csr(matrix, added=name != "floyd_warshall").tocoo()
        _require_trees(arcs, options, pairs[0][0], above)
        pairs = pairs[:1]
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)


@target("csgraph")
def csgraph(_: Path) -> Fuzzed:
    def read(data: bytes) -> None:
        draw = random.Random(data)
        few = draw.choice((1, 8, 32))
        _require_same(*drawn(draw), few)

    return Fuzzed([bytes([number]) for number in range(16)], read)
