"""Commands that search a graph store: ``bfs``, ``sssp`` and ``components``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ooc_graph.cli import options as shared
from ooc_graph.cli.figures import show
from ooc_graph.cli.groups import command
from ooc_graph.cli.many import many_options, run_many
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.layout.store_folder import refuse_other_folder
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.report.graph500 import by_part, in_seconds
from ooc_graph.shards.load import Graph

# What belongs to searches from many sources alone.
_MANY = ("targets", "cutoff", "reduce", "bins", "bin_width")


def _one_source(_: click.Context, __: click.Parameter, given: tuple[int, ...]) -> int | None:
    """The source; click would take the last of several."""
    if len(given) > 1:
        raise UsageError("--source: give it once; for several vertices there is --sources-file")
    return given[0] if given else None


roots_options = shared.together(
    click.option(
        "--source",
        type=int,
        multiple=True,
        callback=_one_source,
        metavar="V",
        help="Vertex to begin at, by its id in your input.",
    ),
    click.option(
        "--sources-file",
        type=shared.PATH,
        metavar="FILE",
        help="Search once from each vertex in this file; --out is the folder of their answers.",
    ),
)
method_option = click.option(
    "--method",
    type=click.Choice(["rows", "edges"]),
    default="rows",
    show_default=True,
    help="edges: keep each edge once; at most half the memory, slower, one worker.",
)


@command("""\
ooc-graph bfs roads.zarr --source 7 --out hops.zarr
ooc-graph bfs roads.zarr --sources all --reduce eccentricity --out eccentricity.zarr""")
@click.argument("graph", type=shared.STORE)
@roots_options
@many_options(None)
@shared.result_option
@shared.exchange_option
@shared.json_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def bfs(graph: str | Path, out: Path, **given: Any) -> None:
    """Find levels and parents by breadth-first search.

    Give --source V for one search, --sources for the levels from many vertices, or --sources-file
    for an answer with parents of each.
    """
    if sum(given[name] is not None for name in ("source", "sources_file", "sources")) != 1:
        raise UsageError("give --source V, or --sources FILE for levels, or --sources-file FILE")
    if given["sources"] is not None:
        if given["method"] != "rows" or given["exchange"] == SCHEDULER:
            raise UsageError(
                "--method edges and --exchange scheduler are for one --source, or --sources-file"
            )
        run_many(graph, out, given, hops=True)
        return
    for name in _MANY:
        if given[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} needs --sources")
    _search("bfs", graph, out, given)


@command("ooc-graph sssp roads.zarr --source 7 --memory-limit 4GiB --out cost.zarr")
@click.argument("graph", type=shared.STORE)
@roots_options
@shared.result_option
@shared.exchange_option
@shared.json_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def sssp(graph: str | Path, out: Path, **given: Any) -> None:
    """Find shortest paths from one vertex, or from each in a file.

    Weights must not be negative; apsp allows them.
    """
    if (given["source"] is None) == (given["sources_file"] is None):
        raise UsageError("give --source V, or --sources-file FILE for several")
    _search("sssp", graph, out, given)


def _search(kernel: str, graph: str | Path, out: Path, given: dict[str, Any]) -> None:
    from ooc_graph.api.vertices import ids_in, positions_of  # noqa: PLC0415 - many modules
    from ooc_graph.search.several import begun_with_of, search_several  # noqa: PLC0415
    from ooc_graph.search.single import search  # noqa: PLC0415

    exchange, method, source = given["exchange"], given["method"], given["source"]
    opened = Graph.open(graph)
    opened.require(ORDER_OF[kernel])
    roots = None if source is not None else ids_in(given["sources_file"])
    if roots is None:
        opened.position_of(source)
    else:
        positions_of(opened, roots)
    Request(kernel, exchange, method).require_together(given["device"])
    limits = shared.cuda_limits(given)
    if roots is None:
        refuse_output(out, "result", given["overwrite"])
    else:
        refuse_other_folder(out, begun_with_of(opened, kernel), given["overwrite"])
    needs_workers = exchange == SCHEDULER
    with shared.searching(
        given, limits, for_cuda=method == "rows", needs_workers=needs_workers
    ) as options:
        options |= {"out": out, "exchange": exchange, "method": method}
        if roots is not None:
            several = search_several(opened, kernel, roots, **options)
            if given["as_json"]:
                found = {"kernel": kernel, "sources": len(roots), "elapsed_s": several.elapsed_s}
                click.echo(json.dumps(found | {"answers": str(out)}))
                return
            took = in_seconds(several.elapsed_s)
            click.echo(f"{kernel} from {len(roots):,} sources in {took}; {out}")
            return
        result: Any = search(opened, kernel, source, **options)
    found = {"source": source, "reached": int(result.reached.sum()), "vertices": opened.vertices}
    said = (
        f"{kernel} from {source}: {found['reached']:,} of {opened.vertices:,} vertices reached "
        f"in {in_seconds(result.elapsed_s)} ({by_part(result.seconds)}); {out}"
    )
    show(result, out, said, found, as_json=given["as_json"])


@command("ooc-graph components roads.zarr --out parts.zarr")
@click.argument("graph", type=shared.STORE)
@shared.result_option
@shared.exchange_option
@shared.json_option
@shared.common_options
def components(graph: str | Path, out: Path, exchange: str, **common: Any) -> None:
    """Find weakly connected components.

    Each component is named by its smallest vertex id.
    """
    from ooc_graph.search.single import search  # noqa: PLC0415

    opened = Graph.open(graph)
    Request("components", exchange).require_together(common["device"])
    refuse_output(out, "result", common["overwrite"])
    with shared.searching(common, for_cuda=False, needs_workers=exchange == SCHEDULER) as options:
        result: Any = search(opened, "components", out=out, exchange=exchange, **options)
    said = (
        f"components: {result.count:,} in a graph of {opened.vertices:,} vertices "
        f"in {in_seconds(result.elapsed_s)} ({by_part(result.seconds)}); {out}"
    )
    found = {"components": result.count, "vertices": opened.vertices}
    show(result, out, said, found, as_json=common["as_json"])
