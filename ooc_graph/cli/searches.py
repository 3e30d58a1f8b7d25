"""Commands that search a graph store: ``bfs``, ``sssp``, ``components``, and of many ``apsp``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType

from ooc_graph.cli import options as shared
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import HUB, LIGHT, ORDER_OF
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.layout.store_folder import refuse_other_folder
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.report.graph500 import by_part
from ooc_graph.shards.load import Graph
from ooc_graph.types import IntArray


class Number(FloatParamType):
    """An integer as it is written, however large; else a float."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Python's own number."""
        with suppress(ValueError):
            return int(value)
        return super().convert(value, param, ctx)


def many_options(
    sources: str | None, *, for_plan: bool = False
) -> Callable[[shared.Command], shared.Command]:
    """Options of searches from many sources; ``for_plan``: only those that memory depends on."""
    options = [
        click.option(
            "--sources",
            default=sources,
            show_default=sources is not None,
            metavar="FILE|N|all",
            help="A file of vertices, one a line; or how many, drawn at random, always the same.",
        ),
        click.option(
            "--targets",
            type=shared.PATH,
            metavar="FILE",
            help="Distances to the vertices of this file only.",
        ),
        click.option(
            "--reduce",
            type=click.Choice(["eccentricity", "closeness", "sum", "histogram"]),
            help="A number for each source, or counts, instead of its distances.",
        ),
        click.option("--bins", type=int, metavar="N", help="Bins of a histogram [64]."),
    ]
    searching = [
        click.option(
            "--cutoff", type=Number(), metavar="X", help="Farther than this is unreached."
        ),
        click.option(
            "--bin-width",
            type=Number(),
            metavar="X",
            help="Their width [1 if all are integers].",
        ),
    ]
    return shared.together(*options, *([] if for_plan else searching))


def given_sources(graph: Graph, sources: str) -> IntArray | None:
    """Original ids of ``--sources``; None: all."""
    from ooc_graph.api.graphs import drawn, ids_in  # noqa: PLC0415

    if sources == "all":
        return None
    if sources == "":
        raise UsageError("--sources: an empty word is no file")
    # So long that there are fewer vertices it is no number, and taken for a file's name.
    is_number = sources.isdecimal() and sources.isascii() and len(sources) < 20
    return drawn(graph, int(sources)) if is_number else ids_in(Path(sources))


@click.command()
@click.argument("graph", type=shared.STORE)
@shared.result_option
@many_options("all")
@click.option("--parents", is_flag=True, help="Also each vertex's parent on its way.")
@shared.cuda_memory_options
@shared.common_options
def apsp(graph: str | Path, out: Path, parents: bool, **given: Any) -> None:
    """All-pairs shortest paths (Johnson), or from many sources; weights of any sign."""
    run_many(graph, out, given, parents=parents)


def run_many(
    graph: str | Path, out: Path, given: dict[str, Any], parents: bool = False, hops: bool = False
) -> None:
    """Search from many sources with the values of all options, and print what was done."""
    import numpy as np  # noqa: PLC0415

    from ooc_graph.answers.asked import Asked  # noqa: PLC0415
    from ooc_graph.answers.reductions import BINS, HISTOGRAM, Bins  # noqa: PLC0415
    from ooc_graph.api.graphs import ids_in, positions_of  # noqa: PLC0415
    from ooc_graph.model.resources import CUDA  # noqa: PLC0415
    from ooc_graph.search.many import require_answerable, search_many  # noqa: PLC0415

    if given["reduce"] != HISTOGRAM and (given["bins"], given["bin_width"]) != (None, None):
        raise UsageError("--bins and --bin-width are for --reduce histogram")
    limits = shared.cuda_limits(given)
    opened, reduce = Graph.open(graph), given["reduce"]
    opened.require(HUB if hops else LIGHT, signed=True)
    ids = given_sources(opened, given["sources"])
    chosen = np.arange(opened.vertices) if ids is None else positions_of(opened, ids)
    aimed = None
    if given["targets"] is not None:
        aimed = positions_of(opened, ids_in(given["targets"]), "targets")
    bins = Bins(BINS if given["bins"] is None else given["bins"], given["bin_width"])
    asked = Asked(aimed, given["cutoff"], reduce, parents, bins, hops)
    require_answerable(opened, asked)
    refuse_output(out, "result", given["overwrite"])
    # With auto levels are found on the CPU, unless it has no room for them.
    with shared.searching(given, limits, for_cuda=not hops or given["device"] == CUDA) as options:
        result = search_many(opened, chosen, asked, out=out, **options)
    name, what = ("bfs", "levels") if hops else ("apsp", "distances")
    click.echo(
        f"{name}: {reduce or what} of {len(chosen):,} sources in {result.elapsed_s:.6g} s; {out}"
    )


# What belongs to searches from many sources alone.
_MANY = ("targets", "cutoff", "reduce", "bins", "bin_width")

roots_options = shared.together(
    click.option("--source", type=int, help="Vertex to begin at, as in your input."),
    click.option(
        "--sources-file",
        type=shared.PATH,
        metavar="FILE",
        help="A search from each vertex of this file; --out is a folder of their stores.",
    ),
)
method_option = click.option(
    "--method",
    type=click.Choice(["rows", "edges"]),
    default="rows",
    show_default=True,
    help="edges: each edge once; less memory, one worker.",
)


@click.command()
@click.argument("graph", type=shared.STORE)
@roots_options
@many_options(None)
@shared.result_option
@shared.exchange_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def bfs(graph: str | Path, out: Path, **given: Any) -> None:
    """Breadth-first search: levels and parents; or the levels from many sources."""
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
            raise UsageError(f"--{name.replace('_', '-')} is for many --sources")
    _search("bfs", graph, out, given)


@click.command()
@click.argument("graph", type=shared.STORE)
@roots_options
@shared.result_option
@shared.exchange_option
@method_option
@shared.cuda_memory_options
@shared.common_options
def sssp(graph: str | Path, out: Path, **given: Any) -> None:
    """Single-source shortest paths on weights of zero or more."""
    if (given["source"] is None) == (given["sources_file"] is None):
        raise UsageError("give --source V, or --sources-file FILE for several")
    _search("sssp", graph, out, given)


def _search(kernel: str, graph: str | Path, out: Path, given: dict[str, Any]) -> None:
    from ooc_graph.api.graphs import ids_in, positions_of  # noqa: PLC0415 - many modules
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
            click.echo(f"{kernel} from {len(roots):,} sources in {several.elapsed_s:.6g} s; {out}")
            return
        result: Any = search(opened, kernel, source, **options)
    reached = int(result.reached.sum())
    click.echo(
        f"{kernel} from {source}: {reached:,} of {opened.vertices:,} vertices reached "
        f"in {result.elapsed_s:.6g} s ({by_part(result.seconds)}); {out}"
    )


@click.command()
@click.argument("graph", type=shared.STORE)
@shared.result_option
@shared.exchange_option
@shared.common_options
def components(graph: str | Path, out: Path, exchange: str, **common: Any) -> None:
    """Weakly connected components: the smallest id in the component of each vertex."""
    from ooc_graph.search.single import search  # noqa: PLC0415

    opened = Graph.open(graph)
    Request("components", exchange).require_together(common["device"])
    refuse_output(out, "result", common["overwrite"])
    with shared.searching(common, for_cuda=False, needs_workers=exchange == SCHEDULER) as options:
        result: Any = search(opened, "components", out=out, exchange=exchange, **options)
    click.echo(
        f"components: {result.count:,} of {opened.vertices:,} vertices "
        f"in {result.elapsed_s:.6g} s ({by_part(result.seconds)}); {out}"
    )
