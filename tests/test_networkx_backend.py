"""The backend of networkx: the same answers as networkx, and which calls are left to it."""

from __future__ import annotations

import inspect
import json
import random
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.networkx_backend import searches
from ooc_graph.networkx_backend.info import FUNCTIONS, NAME, get_info
from ooc_graph.networkx_backend.interface import (
    FEWEST_BETWEEN_TWO,
    FEWEST_FROM_ALL,
    FEWEST_FROM_ONE,
    backend,
)
from ooc_graph.networkx_backend.trees import SHORT
from tests.command_line import REPOSITORY
from tests.networkx_calls import ours, theirs
from tests.unit.test_docs import blocks

PAGE = REPOSITORY / "docs" / "how-to" / "networkx.md"
KINDS = [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]
WEIGHTS: dict[str, Any] = {
    "none": lambda _: {},
    "integers": lambda random: {"weight": random.randrange(1, 9)},
    "floats": lambda random: {"weight": random.random()},
    "some are missing": lambda random: random.choice([{}, {"weight": 3}]),
    "zeros": lambda random: {"weight": random.randrange(3)},
    "negative": lambda random: {"weight": random.randrange(-1, 9)},
}


def graph_of(seed: int, kind: Any, weights: str) -> Any:
    """Up to 16 nodes of several types, shuffled, with loops and parallel edges."""
    chance = random.Random(seed)
    nodes = [chance.choice([i, f"n{i}", (i,), i + 0.5]) for i in range(chance.randrange(1, 17))]
    chance.shuffle(nodes)
    graph = kind()
    graph.add_nodes_from(nodes)
    for _ in range(chance.randrange(3 * len(nodes))):
        ends = chance.choice(nodes), chance.choice(nodes)
        graph.add_edge(*ends, **WEIGHTS[weights](chance))
    return graph


def options_of(name: str, graph: Any, chance: random.Random) -> dict[str, Any]:
    """Some arguments of a function, drawn."""
    nodes = list(graph)
    words = inspect.signature(getattr(nx, name)).parameters
    some = [*chance.sample(nodes, len(nodes) // 2), *chance.choice([[], [], ["missing"]])]
    drawn = {
        "center_nodes": some,
        "cutoff": chance.choice([None, 0, 1, 2.5, -1]),
        "distance": 2 if name == "descendants_at_distance" else chance.choice([None, "weight"]),
        "method": None
        if name.startswith("average")
        else chance.choice(["dijkstra", "bellman-ford"]),
        "n": chance.choice(nodes),
        "nbunch": chance.choice([None, chance.sample(nodes, len(nodes) // 2)]),
        "source": chance.choice([*nodes, "missing"]),
        "sources": some if name.startswith("multi") else chance.choice([None, some]),
        "target": chance.choice(nodes),
        "u": chance.choice([None, *nodes]),
        "v": chance.choice([None, *nodes]),
        "weight": chance.choice(["weight", "weight", None, "another"]),
        "wf_improved": chance.random() < 0.5,
    }
    chosen = {word: drawn[word] for word in words if word in drawn}
    if name.startswith(("single_source", "multi_source", "shortest")) and chance.random() < 0.5:
        chosen.pop("target", None)
        if name.startswith("shortest") and chance.random() < 0.5:
            chosen.pop("source")
    return chosen


def outcome(call: Any, name: str, graph: Any, options: dict[str, Any]) -> Any:
    """What a call gives, or what it raises."""
    try:
        return call(name, graph, **options)
    except (nx.NetworkXException, ValueError, KeyError, ZeroDivisionError) as error:
        # Our copy of the graph does not know how networkx describes it.
        return type(error), str(error).replace(f"graph {graph} is", "graph is")


def length(graph: Any, path: list[Any], weight: str | None) -> float:
    edges = [graph[u][v] for u, v in pairwise(path)]
    if graph.is_multigraph():
        return sum(min(data.get(weight, 1) for data in keys.values()) for keys in edges)
    return sum(data.get(weight, 1) for data in edges)


def tree_lengths(
    graph: Any, before: dict[Any, Any], distances: dict[Any, Any], weight: str | None
) -> dict[Any, Any]:
    """The distances, if each follows from that of the node before."""
    for node, parent in before.items():
        if parent is not None:
            edge = length(graph, [parent, node], weight)
            assert distances[node] == pytest.approx(distances[parent] + edge)
    return distances


def cell_lengths(graph: Any, cells: dict[Any, set[Any]], weight: str | None) -> dict[Any, Any]:
    """Distance of each node from the center of its cell."""
    found = dict.fromkeys(cells.get("unreachable", ()))
    for center, cell in cells.items():
        if center != "unreachable":
            lengths = theirs("single_source_dijkstra_path_length", graph, center, weight=weight)
            found |= {node: lengths[node] for node in cell}
    assert sum(map(len, cells.values())) == len(found)
    return found


def assert_same(
    graph: Any, found: Any, expected: Any, weight: str | None, sources: Any = ()
) -> None:
    """Equal, floats nearly; of paths the lengths and the ends, of which one may be any source."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(graph, found[key], expected[key], weight, sources)
    elif isinstance(expected, (float, np.ndarray)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    elif found != expected and isinstance(expected, list) and all(end in graph for end in expected):
        assert found[-1] == expected[-1]
        assert found[0] == expected[0] or {found[0], expected[0]} <= set(sources)
        assert length(graph, found, weight) == pytest.approx(length(graph, expected, weight))
    elif found != expected:
        for one, other in zip(found, expected, strict=True):
            assert_same(graph, one, other, weight, sources)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_networkx(
    kind: Any, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = 0
    for seed in range(2):
        graph, chance = graph_of(seed, kind, weights), random.Random(seed)
        monkeypatch.setattr(searches, "MANY_SOURCES", [1, 99][seed])
        for name in FUNCTIONS:
            options = options_of(name, graph, chance)
            expected = outcome(theirs, name, graph, options)
            try:
                found = outcome(ours, name, graph, options)
            except NotImplementedError:
                continue
            answered += 1
            default = inspect.signature(getattr(nx, name)).parameters.get("weight")
            weight = options.get("weight", default and default.default)
            if name == "goldberg_radzik" and isinstance(expected[0], dict):
                found, expected = tree_lengths(graph, *found, weight), expected[1]
            if name == "floyd_warshall_predecessor_and_distance":
                for node, before in found[0].items():
                    tree_lengths(graph, before, found[1][node], weight)
                assert found[0].keys() == expected[0].keys()
                found, expected = found[1], expected[1]
            if name == "voronoi_cells" and isinstance(expected, dict):
                assert found.keys() == expected.keys()
                found, expected = (cell_lengths(graph, one, weight) for one in (found, expected))
            if name in ("barycenter", "center", "periphery"):
                assert found == expected
            assert_same(graph, found, expected, weight, options.get("sources") or ())
    assert answered > (40 if weights == "negative" else 60)


@pytest.mark.parametrize("name", ["single_source_shortest_path", "single_target_shortest_path"])
def test_long_paths_are_those_of_networkx(name: str) -> None:
    graph = nx.path_graph(3 * SHORT)
    nx.add_path(graph, [SHORT, *"abc"])
    assert ours(name, graph, 2) == theirs(name, graph, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_searched_as_networkx_does(kind: Any) -> None:
    graph = graph_of(4, kind, "integers")
    edges, nodes = list(graph.edges), list(graph)
    views = [graph.edge_subgraph(edges[::2]), graph.subgraph(nodes[::2])]
    views.append(nx.restricted_view(graph, nodes[:2], edges[::3]))
    if graph.is_directed():
        views += [graph.reverse(copy=False), views[0].reverse(copy=False)]
    for view in views:
        for node in list(view):
            options = {"source": node, "weight": "weight"}
            found = ours("shortest_path_length", view, **options)
            assert found == theirs("shortest_path_length", view, **options)


def test_weights_of_undirected_views_are_left_to_networkx() -> None:
    """There (u, v) and (v, u) may differ in weight."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 5), (1, 0, 2), (1, 2, 1)])
    view = graph.to_undirected(as_view=True)
    assert ours("is_connected", view)
    for undirected in (view, view.subgraph([0, 1])):
        with pytest.raises(NotImplementedError):
            ours("dijkstra_path_length", undirected, 1, 0)


def test_sources_are_at_the_integer_0() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=0.5)
    for name in ("single_source_dijkstra_path_length", "single_source_bellman_ford_path_length"):
        assert repr(ours(name, graph, "a")) == repr(theirs(name, graph, "a"))
    assert repr(ours("dijkstra_path_length", graph, "a", "a")) == "0"
    assert repr(ours("floyd_warshall", graph)["b"]) == "{'a': 0.5, 'b': 0}"
    graph.add_node("c")
    found, expected = (call("harmonic_centrality", graph) for call in (ours, theirs))
    assert {node: repr(one) for node, one in found.items()} == {"a": "1.0", "b": "1.0", "c": "0"}
    assert found == expected


def test_names_of_nodes_stand_in_messages_as_they_are() -> None:
    graph = nx.empty_graph([frozenset([4]), "{}"])
    for name in ("bidirectional_shortest_path", "dijkstra_path_length", "bellman_ford_path_length"):
        for options in ({"source": frozenset([4]), "target": "{}"}, {"source": "{0}", "target": 1}):
            found, expected = (outcome(call, name, graph, options) for call in (ours, theirs))
            assert found == expected


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_pagerank_is_that_of_networkx(kind: Any) -> None:
    for seed, weights in enumerate(sorted(WEIGHTS.keys() - {"negative"})):
        graph, chance = graph_of(seed + 1, kind, weights), random.Random(seed)
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        chosen = chance.sample(list(graph), len(graph) // 2 + 1)
        some = {node: chance.random() for node in chosen} | {"missing": 2}
        for options in (
            {"weight": None, "alpha": 0.5},
            {"personalization": some, "tol": 1e-12, "max_iter": 300},
            {"personalization": some, "dangling": dict.fromkeys(graph, 1)},
            {"max_iter": 1, "tol": 1e-9},
            {"max_iter": 0},
            {"personalization": {"missing": 2}},
        ):
            found, expected = (outcome(call, "pagerank", graph, options) for call in (ours, theirs))
            if isinstance(expected, dict):
                # Scores are multiples of 2**-61.
                expected = pytest.approx(expected, rel=1e-12, abs=1e-17)
            assert found == expected


@pytest.mark.parametrize(
    "graph",
    [
        nx.Graph([(0, 0), (0, 1)]),
        nx.MultiGraph([(0, 1)]),
        nx.Graph([(0, 1, {"weight": -1})]),
    ],
    ids=["loop", "multigraph", "negative"],
)
def test_pagerank_that_is_left_to_networkx(graph: Any) -> None:
    with pytest.raises(NotImplementedError):
        ours("pagerank", graph)


def test_barycenters_are_those_of_sums_as_networkx_rounds_them() -> None:
    for seed in range(12):
        graph, chance = nx.gnm_random_graph(12, 40, seed), random.Random(seed)
        for u, v in graph.edges:
            graph.edges[u, v]["weight"] = chance.choice([0.1, 0.2, 0.3])
        assert theirs("is_connected", graph)
        for weight in (None, "weight"):
            answers = [call("barycenter", graph, weight=weight) for call in (ours, theirs)]
            assert answers[0] == answers[1]
    with pytest.raises(NotImplementedError):
        ours("barycenter", nx.path_graph(4))


def test_what_is_named_is_there() -> None:
    assert set(FUNCTIONS) <= set(vars(backend))
    assert get_info()["functions"].keys() == FUNCTIONS.keys()
    assert all(NAME in nx.utils.backends.backends for _ in FUNCTIONS)


def test_entry_points_lead_to_the_backend() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
    found = {}
    for group, entries in declared.items():
        module, _, name = entries[NAME].partition(":")
        found[group] = getattr(import_module(module), name)
    assert found == {"networkx.backends": backend, "networkx.backend_info": get_info}


def test_information_is_read_without_the_searches() -> None:
    program = "import sys, ooc_graph.networkx_backend.info; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("dijkstra_path", {"source": 0, "target": 1, "weight": lambda *_: 1}, "function"),
        ("closeness_centrality", {"distance": lambda *_: 1}, "function"),
        ("eccentricity", {"sp": {}}, "given"),
        ("diameter", {"e": {}}, "given"),
        ("center", {"usebounds": True}, "usebounds"),
        ("barycenter", {"attr": "sum"}, "attr"),
        ("pagerank", {"nstart": {0: 1}}, "begin"),
        ("single_source_shortest_path", {"source": 0, "cutoff": float("nan")}, "cutoff"),
        ("eccentricity", {"v": iter([0])}, "once"),
    ],
)
def test_calls_that_networkx_keeps(name: str, options: dict[str, Any], reason: str) -> None:
    said = backend.can_run(name, (nx.path_graph(3),), options)
    assert isinstance(said, str)
    assert reason in said


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((None, 1), "not all integers or float64"),
        (("3", 1), "not all integers or float64"),
        ((np.float32(0.1), 1), "not all integers or float64"),
        ((float("inf"), 1), "not all finite"),
        ((2**70, 1), "more than 64 bits"),
        ((2**60, 0.5), "not exact"),
        ((2**53 + 1, 0.5), "not exact"),
        ((-0.5, 1), "negative"),
    ],
)
def test_weights_that_networkx_keeps(weights: tuple[Any, Any], message: str) -> None:
    graph = nx.path_graph(4)
    graph.add_edge(0, 1, weight=weights[0])
    graph.add_edge(1, 2, weight=weights[1])
    with pytest.raises(NotImplementedError) as caught:
        ours("single_source_dijkstra_path_length", graph, 0)
    assert message in str(caught.value.__cause__)


def test_negative_cycles() -> None:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 2), (2, 3, -2), (3, 2, 1), (3, 4, 1)])
    assert ours("negative_edge_cycle", graph)
    with pytest.raises(nx.NetworkXUnbounded):
        ours("johnson", graph)
    with pytest.raises(nx.NetworkXUnbounded):
        ours("bellman_ford_path_length", graph, 2, 4)
    # From 0 it is not reached, so that networkx has distances.
    with pytest.raises(NotImplementedError):
        ours("single_source_bellman_ford_path_length", graph, 0)
    graph.remove_edge(3, 2)
    assert not ours("negative_edge_cycle", graph)
    assert ours("johnson", graph) == theirs("johnson", graph)


def test_cycles_of_floats_are_left_to_networkx() -> None:
    """0.1 + 0.2 - 0.3 is above 0 in one order of addition, and below in others."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 0.1), (1, 2, 0.2), (2, 0, -0.3)])
    with pytest.raises(NotImplementedError):
        ours("negative_edge_cycle", graph)
    graph[2][0]["weight"] = 0.3
    graph.__networkx_cache__.clear()
    assert ours("negative_edge_cycle", graph) is False


def test_calls_without_a_backend_are_taken_where_that_is_quicker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def counted(*_: Any) -> dict[Any, int]:
        calls.append("called")
        return {}

    monkeypatch.setattr(backend, "single_source_shortest_path_length", counted)
    with nx.config.backend_priority(algos=[NAME]):
        nx.single_source_shortest_path_length(nx.path_graph(FEWEST_FROM_ONE - 1), 0)
        assert calls == []
        nx.single_source_shortest_path_length(nx.path_graph(FEWEST_FROM_ONE), 0)
        assert calls == ["called"]
        # What it cannot carry out is done by networkx.
        monkeypatch.undo()
        graph = nx.path_graph(FEWEST_FROM_ONE)
        graph.edges[0, 1]["weight"] = None
        assert len(nx.single_source_dijkstra_path_length(graph, 0)) == 1


def test_fewest_nodes_are_more_for_fewer_sources() -> None:
    small, large = nx.empty_graph(FEWEST_FROM_ALL), nx.empty_graph(FEWEST_BETWEEN_TWO)
    assert backend.should_run("closeness_centrality", (small,), {}) is True
    assert backend.should_run("shortest_path", (small,), {}) is True
    assert backend.should_run("connected_components", (small,), {}) is not True
    assert backend.should_run("shortest_path", (small, 0), {}) is not True
    assert backend.should_run("shortest_path", (large, 0), {}) is True
    assert backend.should_run("shortest_path", (large, 0, 1), {}) is not True
    assert backend.should_run("multi_source_dijkstra", (large, [0]), {}) is True
    assert backend.should_run("multi_source_dijkstra", (large, [0], 1), {}) is not True
    ours("number_connected_components", large)
    assert backend.should_run("shortest_path", (large, 0, 1), {}) is True
    ours("number_connected_components", small)
    assert backend.should_run("shortest_path", (small, 0, 1), {}) is not True


def test_a_conversion_is_used_again_until_the_graph_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    convert = backend.convert_from_nx

    def counted(graph: Any, **options: Any) -> Any:
        made.append(len(graph))
        return convert(graph, **options)

    monkeypatch.setattr(backend, "convert_from_nx", counted)
    graph = nx.path_graph(5)
    assert ours("single_source_dijkstra_path_length", graph, 0)[4] == 4
    assert ours("single_source_shortest_path_length", graph, 4)[0] == 4
    assert made == [5]
    graph.add_edge(4, 5)
    assert ours("single_source_shortest_path_length", graph, 0)[5] == 5
    assert made == [5, 6]


@pytest.fixture(scope="module", params=["memory", "store"])
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """0 - 7 - 9 - 12 and 20 - 21, weighted, with gaps between the ids."""
    columns = np.array([5, 7, 9, 20]), np.array([7, 9, 12, 21]), np.array([4, 1, 2, 1])
    if request.param == "memory":
        return og.from_edges(*columns)
    out = tmp_path_factory.mktemp("own") / "graph.zarr"
    return og.build(columns, out, directed=False)


def test_own_graphs_are_given_to_networkx(own: og.Graph) -> None:
    assert nx.single_source_shortest_path_length(own, 7) == {7: 0, 5: 1, 9: 1, 12: 2}
    assert nx.dijkstra_path(own, 5, 12) == [5, 7, 9, 12]
    assert nx.shortest_path_length(own, target=12, weight="weight") == {12: 0, 9: 2, 7: 3, 5: 7}
    assert list(nx.connected_components(own)) == [{5, 7, 9, 12}, {20, 21}]
    assert dict(nx.all_pairs_shortest_path_length(own))[20] == {20: 0, 21: 1}
    assert nx.closeness_centrality(own, 20) == pytest.approx(1 / 5)
    assert nx.descendants_at_distance(own, 5, 2) == {9}
    assert nx.multi_source_dijkstra_path(own, [5, 12])[9] == [12, 9]
    cells = {5: {5}, 12: {7, 9, 12}, "unreachable": {20, 21}}
    assert nx.voronoi_cells(own, [5, 12]) == cells
    jump = {12: 1, 20: 2}
    same = theirs("pagerank", backend.convert_to_nx(own), personalization=jump)
    assert nx.pagerank(own, personalization=jump) == pytest.approx(same, rel=1e-12)
    with pytest.raises(nx.NodeNotFound):
        nx.single_source_shortest_path_length(own, 8)
    with pytest.raises(nx.NodeNotFound):
        nx.single_source_shortest_path_length(own, "7")


def test_own_graphs_are_turned_into_networkx_graphs(own: og.Graph) -> None:
    graph = backend.convert_to_nx(own)
    assert sorted(graph.nodes) == [5, 7, 9, 12, 20, 21]
    weights = {frozenset(ends): weight for *ends, weight in graph.edges(data="weight")}
    expected = [(5, 7, 4), (7, 9, 1), (9, 12, 2), (20, 21, 1)]
    assert weights == {frozenset(ends): weight for *ends, weight in expected}
    # A function that the backend does not have.
    with pytest.raises(NotImplementedError):
        nx.triangles(own)


def test_own_directed_graphs_are_searched_along_their_arcs() -> None:
    graph = og.from_edges([0, 1], [1, 2], directed=True)
    assert nx.shortest_path(graph, 0, 2) == [0, 1, 2]
    assert nx.number_weakly_connected_components(graph) == 1
    with pytest.raises(nx.NetworkXNotImplemented):
        nx.number_connected_components(graph)
    with pytest.raises(NotImplementedError):
        nx.single_target_shortest_path_length(graph, 2)


def test_converted_graphs_are_turned_back() -> None:
    graph = nx.MultiDiGraph([("a", "b", {"weight": 3}), ("a", "b", {"weight": 2}), ("b", "b", {})])
    converted = backend.convert_from_nx(graph, edge_attrs={"weight": 1})
    back = backend.convert_to_nx(converted)
    assert list(back.edges(data=True)) == [("a", "b", {"weight": 2}), ("b", "b", {"weight": 1})]
    assert backend.convert_to_nx({"a": 1}) == {"a": 1}


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = blocks(PAGE, "python")
    space: dict[str, Any] = {}
    with nx.config(backend_priority=nx.config.backend_priority):
        for program in programs:
            exec(compile(program, "networkx.md", "exec"), space)
    assert dict(space["hops"])[0] == 0
    assert space["components"] == list(nx.connected_components(space["graph"], backend="networkx"))
    assert len(space["lengths"]) == len(space["hops"])


def test_the_page_names_every_function_and_no_other() -> None:
    section = PAGE.read_text().partition("\n## Functions\n")[2].partition("\nAnswers are")[0]
    assert sorted(re.findall(r"`(\w+)`", section)) == sorted(FUNCTIONS)


@pytest.mark.parametrize(
    "quick", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["quick", "whole"]
)
def test_networkx_own_tests_pass(quick: bool, tmp_path: Path) -> None:
    records = tmp_path / "networkx.jsonl"
    command = [sys.executable, "-m", "tests.networkx_suite", "--records", str(records)]
    done = subprocess.run(
        [*command, *(["--quick"] if quick else [])],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    figures = json.loads(records.read_text())["figures"]
    assert figures["outcomes"]["passed"] >= (50 if quick else 800)
    assert sum(figures["calls"].values()) >= (120 if quick else 500)
