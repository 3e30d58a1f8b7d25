"""networkx' functions with the backend ooc_graph against networkx' own, on a Kronecker graph.

    python benchmarks/networkx_backend.py [--scale 18] [--repeats 3] [--functions NAME,NAME]

Both are called through networkx on the same undirected graph with weights from 0 to 1 and without
self-loops, from the same node or nodes, in turns, and both answers must be equal. The backend is
timed with the conversion in networkx' cache, and with an empty cache, so that the graph is
converted and brought into rows. Functions of all nodes need the whole matrix from networkx: give a
small scale. Iterators are read to their end. Compiling is not in the times.
"""

import statistics
from collections.abc import Callable, Iterator
from heapq import nlargest
from typing import Any

import networkx as nx
from harness.program import Program, load_average, words
from harness.timing import take_turns, timed

import ooc_graph as og

NETWORKX, CACHED, CONVERTED = "networkx", "ooc_graph", "ooc_graph with conversion"
SEARCHES = (
    "single_source_shortest_path_length,single_source_shortest_path,"
    "single_source_dijkstra_path_length,single_source_dijkstra,connected_components,"
    "number_connected_components"
)
CONNECTED = {"barycenter"}
"""Functions of connected graphs, which are given the largest component."""
WITHOUT_SOURCE = {
    "all_pairs_dijkstra_path_length",
    "all_pairs_shortest_path_length",
    "barycenter",
    "closeness_centrality",
    "connected_components",
    "floyd_warshall",
    "harmonic_centrality",
    "johnson",
    "number_connected_components",
    "pagerank",
}
"""Functions that are given the graph alone."""
FROM_SEVERAL = {
    "multi_source_dijkstra",
    "multi_source_dijkstra_path",
    "multi_source_dijkstra_path_length",
    "voronoi_cells",
}
"""Functions that are given several nodes."""
SOURCES = 100


def kronecker(scale: int) -> Any:
    edges = og.Kronecker(scale)
    columns = edges.block(0, edges.edges)
    graph = nx.Graph()
    graph.add_nodes_from(range(edges.vertices))
    graph.add_weighted_edges_from(zip(*(column.tolist() for column in columns), strict=True))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def caller(name: str, graph: Any, backend: str) -> Callable[[], Any]:
    nodes: tuple[Any, ...] = ()
    if name in FROM_SEVERAL:
        nodes = (nlargest(SOURCES, graph, key=graph.degree),)
    elif name not in WITHOUT_SOURCE:
        nodes = (max(graph, key=graph.degree),)

    def call() -> Any:
        found = getattr(nx, name)(graph, *nodes, backend=backend)
        return list(found) if isinstance(found, Iterator) else found

    return call


def same(found: Any, other: Any) -> bool:
    """Whether answers are equal, floats to ten digits, and of paths how many there are."""
    if isinstance(found, float):
        return bool(abs(found - other) <= 1e-10 * abs(found))
    if isinstance(found, dict):
        return found.keys() == other.keys() and all(same(found[key], other[key]) for key in found)
    if isinstance(found, (list, tuple)):
        return len(found) == len(other) and all(map(same, found, other))
    return bool(found == other)


def measured(name: str, graph: Any, repeats: int) -> dict[str, Any]:
    ours = caller(name, graph, "ooc_graph")
    calls = {NETWORKX: caller(name, graph, "networkx"), CACHED: ours, CONVERTED: ours}
    expected: list[Any] = []

    def before(way: str) -> None:
        if way == CONVERTED:
            graph.__networkx_cache__.clear()

    def check(way: str, answer: Any) -> None:
        if not expected:
            expected.append(answer)
        # Of several shortest paths each may find another one.
        elif not name.endswith(("path", "dijkstra", "johnson")) and not same(expected[0], answer):
            raise SystemExit(f"{name}: the answers of {way} differ")

    first = timed(ours).elapsed_s
    times_s = take_turns(calls, repeats, before=before, check=check).times_s
    medians = {way: statistics.median(found) for way, found in times_s.items()}
    ratios = {way: medians[NETWORKX] / medians[way] for way in (CACHED, CONVERTED)}
    return {
        "median_s": medians,
        "times_as_fast": ratios,
        "first_call_s": first,
        "runs_s": times_s,
        **load_average(),
    }


def main() -> None:
    program = Program("networkx_backend", __doc__, scale=18, repeats=3)
    program.add("--functions", type=words, default=words(SEARCHES), help="names, by commas")
    options = program.parse()
    nx.config.warnings_to_ignore.add("cache")
    built = timed(lambda: kronecker(options.scale))
    parameters = program.given("scale") | {"edge_factor": 16, "networkx": nx.__version__}
    for name in options.functions:
        graph = built.result
        if name in CONNECTED:
            graph = graph.subgraph(max(nx.connected_components(graph), key=len)).copy()
        size = {"nodes": len(graph), "edges": graph.number_of_edges(), "built_s": built.elapsed_s}
        figures = measured(name, graph, options.repeats)
        program.record(parameters | {"function": name}, size | figures)


if __name__ == "__main__":
    main()
