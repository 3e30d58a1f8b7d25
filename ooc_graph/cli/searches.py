"""Commands that search a graph store: ``bfs``, ``sssp``, ``components``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ooc_graph.cli import options as shared
from ooc_graph.cli.many import many_options, run_many
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.report.graph500 import by_part
from ooc_graph.search.single import search
from ooc_graph.shards.load import Graph

_SOURCE = "Vertex to begin at, as in your input."
# What belongs to searches from many sources alone.
_MANY = ("targets", "cutoff", "reduce", "bins", "bin_width")

method_option = click.option(
    "--method",
    type=click.Choice(["rows", "edges"]),
    default="rows",
    show_default=True,
    help="edges: each edge once; less memory, one worker.",
)


@click.command()
@click.argument("graph", type=shared.PATH)
@click.option("--source", type=int, help=_SOURCE)
@many_options(None)
@shared.result_option
@shared.exchange_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def bfs(graph: Path, source: int | None, out: Path, **given: Any) -> None:
    """Breadth-first search: levels and parents; or the levels from many sources."""
    if (source is None) == (given["sources"] is None):
        raise UsageError("give --source V, or --sources FILE for many")
    if source is None:
        if given["method"] != "rows" or given["exchange"] == SCHEDULER:
            raise UsageError("--method edges and --exchange scheduler are for one --source")
        run_many(graph, out, given, hops=True)
        return
    for name in _MANY:
        if given[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for many --sources")
    _search("bfs", graph, source, out, given)


@click.command()
@click.argument("graph", type=shared.PATH)
@click.option("--source", type=int, required=True, help=_SOURCE)
@shared.result_option
@shared.exchange_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def sssp(graph: Path, source: int, out: Path, **given: Any) -> None:
    """Single-source shortest paths on weights of zero or more."""
    _search("sssp", graph, source, out, given)


def _search(kernel: str, graph: Path, source: int, out: Path, given: dict[str, Any]) -> None:
    exchange, method = given["exchange"], given["method"]
    opened = Graph.open(graph)
    opened.require(ORDER_OF[kernel])
    opened.position_of(source)
    Request(kernel, exchange, method).require_together(given["device"])
    limits = shared.cuda_limits(given)
    refuse_output(out, "result", given["overwrite"])
    needs_workers = exchange == SCHEDULER
    with shared.searching(
        given, limits, for_cuda=method == "rows", needs_workers=needs_workers
    ) as options:
        result: Any = search(
            opened, kernel, source, out=out, exchange=exchange, method=method, **options
        )
    reached = int(result.reached.sum())
    click.echo(
        f"{kernel} from {source}: {reached:,} of {opened.vertices:,} vertices reached "
        f"in {result.elapsed_s:.6g} s ({by_part(result.seconds)}); {out}"
    )


@click.command()
@click.argument("graph", type=shared.PATH)
@shared.result_option
@shared.exchange_option
@shared.common_options
def components(graph: Path, out: Path, exchange: str, **common: Any) -> None:
    """Weakly connected components: the smallest id in the component of each vertex."""
    opened = Graph.open(graph)
    Request("components", exchange).require_together(common["device"])
    refuse_output(out, "result", common["overwrite"])
    with shared.searching(common, for_cuda=False, needs_workers=exchange == SCHEDULER) as options:
        result: Any = search(opened, "components", out=out, exchange=exchange, **options)
    click.echo(
        f"components: {result.count:,} of {opened.vertices:,} vertices "
        f"in {result.elapsed_s:.6g} s ({by_part(result.seconds)}); {out}"
    )
