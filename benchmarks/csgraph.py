"""`ooc_graph.csgraph` and `scipy.sparse.csgraph` on the same matrices, arrays in, arrays out.

    python benchmarks/csgraph.py [--scale 18] [--small-scale 12] [--sources 64] [--repeats 5]
    python benchmarks/csgraph.py --scipys-tests

The first graph is Graph500's Kronecker graph of ``--scale``, both directions of each edge, with
float64 weights; 0: none. The second one, for all pairs, is that of ``--small-scale``. Everything is
in the time that a user waits for: ours makes whatever it needs of the matrix, anew in every call.
Compiling is not. Calls take turns, SciPy's on one thread as always, ours on all; `ratio` is SciPy's
median over ours, of elapsed seconds, and `cpu_ratio` of seconds of all processors. Distances must
be the same.

``--scipys-tests`` runs SciPy's own tests of these functions on ours, and records how many pass.
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from harness.program import Program, load_average
from harness.timing import take_turns
from peers_graphs import kronecker
from scipy.sparse import csgraph as scipys
from scipy.sparse import csr_array, issparse

from ooc_graph import csgraph as ours
from ooc_graph.threads import cores


def matrix_of(scale: int) -> Any:
    """Adjacency of a Kronecker graph as SciPy would make it: int32 indices, float64 weights."""
    edges = kronecker(scale, 1).edges
    source, target = np.concatenate([edges.u, edges.v]), np.concatenate([edges.v, edges.u])
    weights = np.tile(np.asarray(edges.w, np.float64), 2)
    matrix = csr_array((weights, (source, target)), shape=(edges.vertices, edges.vertices))
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return csr_array((matrix.data, indices, indptr), shape=matrix.shape)


def compared(program: Program, name: str, matrix: Any, call: Callable[[Any], Any]) -> None:
    """Record times of one call of both libraries, whose first arrays must be the same."""
    expected = call(scipys)
    found = call(ours)
    for one, other in zip(_arrays(found)[:1], _arrays(expected)[:1], strict=True):
        if not np.allclose(one, other, rtol=1e-12, atol=1e-9):
            raise SystemExit(f"{name}: the answers differ")
    del found, expected
    calls = {"ooc-graph": lambda: call(ours), "scipy": lambda: call(scipys)}
    turns = take_turns(calls, program.options.repeats, long_s=20)
    median = {of: statistics.median(times) for of, times in turns.times_s.items()}
    used = {of: statistics.median(times) for of, times in turns.cpu_s.items()}
    parameters = {"call": name, "vertices": matrix.shape[0], "arcs": matrix.nnz}
    figures = {
        "times_s": turns.times_s,
        "median_s": median,
        "median_cpu_s": used,
        "ratio": median["scipy"] / median["ooc-graph"],
        "cpu_ratio": used["scipy"] / used["ooc-graph"],
        **load_average(),
    }
    versions = {"threads": cores(), "scipy": scipy.__version__}
    program.record(parameters | versions, figures)


def _arrays(found: Any) -> tuple[Any, ...]:
    if issparse(found):
        # Rows of SciPy's are in no order.
        return (found.sorted_indices().data,)
    return found if isinstance(found, tuple) else (found,)


def large(program: Program, matrix: Any) -> None:
    """Searches from few vertices, and components."""
    degrees = np.diff(matrix.indptr)
    root = int(np.flatnonzero(degrees == 3)[7])
    rng = np.random.default_rng(1)
    some = rng.choice(np.flatnonzero(degrees), program.options.sources, False)
    spread = matrix.copy()
    spread.data = 10 ** (17 * rng.random(matrix.nnz))
    for name, call in {
        "breadth_first_order": lambda of: of.breadth_first_order(matrix, root),
        "breadth_first_order, undirected": lambda of: of.breadth_first_order(matrix, root, False),
        "breadth_first_tree": lambda of: of.breadth_first_tree(matrix, root),
        "breadth_first_tree, undirected": lambda of: of.breadth_first_tree(matrix, root, False),
        "connected_components": lambda of: of.connected_components(matrix),
        "shortest_path, unweighted": lambda of: of.shortest_path(
            matrix, unweighted=True, indices=root
        ),
        "dijkstra": lambda of: of.dijkstra(matrix, indices=root, return_predecessors=True),
        "dijkstra, weights from 1 to 1e17": lambda of: of.dijkstra(
            spread, indices=root, return_predecessors=True
        ),
        "dijkstra, undirected": lambda of: of.dijkstra(matrix, False, indices=root),
        f"dijkstra, {len(some)} sources": lambda of: of.dijkstra(
            matrix, indices=some, return_predecessors=True
        ),
    }.items():
        compared(program, name, matrix, call)


def all_pairs(program: Program, matrix: Any) -> None:
    """Distances of all pairs."""
    dense = matrix[:1000, :1000].toarray()
    for name, call in {
        "johnson, all pairs": lambda of: of.johnson(matrix),
        "dijkstra, all pairs": lambda of: of.dijkstra(matrix, return_predecessors=True),
        "shortest_path, all pairs": lambda of: of.shortest_path(matrix),
        "floyd_warshall, dense": lambda of: of.floyd_warshall(dense),
    }.items():
        compared(program, name, matrix if "dense" not in name else csr_array(dense), call)


def main() -> None:
    program = Program("csgraph", __doc__, scale=18, repeats=5, sources=64)
    program.add("--small-scale", type=int, default=12)
    program.add("--scipys-tests", action="store_true")
    options = program.parse()
    if options.scipys_tests:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from tests.test_scipys_csgraph import MODULES, run_scipys_tests  # noqa: PLC0415

        found: dict[str, Any] = run_scipys_tests(*MODULES)
        program.record({"modules": list(MODULES), "scipy": scipy.__version__}, found)
        return
    if options.scale:
        large(program, matrix_of(options.scale))
    all_pairs(program, matrix_of(options.small_scale))


if __name__ == "__main__":
    main()
