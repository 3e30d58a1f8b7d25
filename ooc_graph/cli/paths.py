"""The command ``path``: a shortest path between two vertices, and its length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from ooc_graph.answers.paths import InMemory, paths_to
from ooc_graph.answers.result import Result, TreeResult
from ooc_graph.cli import options as shared
from ooc_graph.cli.groups import command
from ooc_graph.errors import NoPathError, UsageError
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.layout.stored import Stored
from ooc_graph.remote.stores import local_path
from ooc_graph.runtime.stored_answers import other_graph
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray


class _Tree(NamedTuple):
    """A search tree by original id: columns (vertices,), lengths are levels or distances."""

    vertex: IntArray
    parent: IntArray
    lengths: AnyArray


@command("""\
ooc-graph path flights.zarr 10 40
ooc-graph path flights.zarr 10 40 --answer cost.zarr --json""")
@click.argument("graph", type=shared.STORE)
@click.argument("source", type=int, metavar="A")
@click.argument("target", type=int, metavar="B")
@click.option(
    "--answer",
    type=shared.STORE,
    metavar="ANSWER",
    help="Read the path from this answer of bfs or sssp from A instead of searching.",
)
@click.option(
    "--hops", is_flag=True, help="Find the path of fewest hops although the graph has weights."
)
@shared.json_option
@shared.cuda_memory_options
@shared.where_options
def path(graph: str | Path, source: int, target: int, as_json: bool, **given: Any) -> None:
    """Print a shortest path from vertex A to vertex B.

    Its length is the sum of the weights, or the number of hops if the graph has no weights.
    """
    if given["answer"] is not None and given["hops"]:
        raise UsageError("--answer says itself whether hops or weights count: leave out --hops")
    opened = Graph.open(graph)
    opened.position_of(source)
    opened.position_of(target)
    if given["answer"] is not None:
        tree = _stored(opened, given["answer"], source)
    else:
        tree = _searched(opened, source, given)
    found = _walk(tree, target)
    length = None if found is None else tree.lengths[np.searchsorted(tree.vertex, target)].item()
    hops = None if found is None else len(found) - 1
    if as_json:
        facts = {"source": source, "target": target, "path": found, "hops": hops, "length": length}
        click.echo(json.dumps(facts))
    if found is None:
        raise NoPathError(f"{opened.path}: no path leads from {source} to {target}")
    if not as_json:
        click.echo(" -> ".join(map(str, found)))
        click.echo(f"length {length}, {hops} hop{'' if hops == 1 else 's'}")


def _stored(graph: Graph, answer: str | Path, source: int) -> _Tree:
    """The tree of a stored answer, which must be of this graph and begin at the source."""
    result = Result.open(local_path(answer))
    stored = result.columns
    assert isinstance(stored, Stored)
    if not isinstance(result, TreeResult):
        raise UsageError(f"{answer}: holds a result of {result.kernel}; give one of bfs or sssp")
    if stored.attributes["graph_sha256"] != graph.content_sha256:
        raise other_graph(graph, str(answer))
    if result.sources or result.limit is not None:
        raise UsageError(
            f"{answer}: is of several sources, or of a search with cutoff or targets; leave out "
            "--answer to search"
        )
    if result.root != source:
        raise UsageError(
            f"{answer}: begins at {result.root}, not at {source}; leave out --answer to search"
        )
    return _Tree(result.vertex, result.parent, result.read(result.measure))


def _searched(graph: Graph, source: int, given: dict[str, Any]) -> _Tree:
    """The tree of a new search: of BFS without weights, of Johnson if some are negative."""
    from ooc_graph.answers.asked import Asked  # noqa: PLC0415 - many modules
    from ooc_graph.search.many import search_many  # noqa: PLC0415
    from ooc_graph.search.single import search  # noqa: PLC0415

    kernel = "sssp" if graph.weighted and not given["hops"] else "bfs"
    graph.require(LIGHT if kernel == "sssp" else HUB, signed=True)
    limits = shared.cuda_limits(given)
    with shared.searching(given, limits, for_cuda=True, needs_workers=False) as options:
        if kernel == "sssp" and graph.has_negative_weights:
            position = np.array([graph.position_of(source)])
            many = search_many(graph, position, Asked(parents=True), **options)
            return _Tree(many.vertex, many.parent[0], many.distance[0])
        one: Any = search(graph, kernel, source, **options)
        return _Tree(one.vertex, one.parent, one.read(one.measure))


def _walk(tree: _Tree, target: int) -> list[int] | None:
    """Vertices from the source to the target; None if the target is unreached."""
    try:
        (found,) = paths_to(InMemory(tree.vertex, tree.parent), np.array([target]))
    except NoPathError:
        return None
    return [int(vertex) for vertex in found]
