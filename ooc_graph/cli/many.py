"""The command ``apsp``, and what searches from many sources share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType

from ooc_graph.cli import options as shared
from ooc_graph.cli.figures import show
from ooc_graph.cli.groups import command
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.remote.urls import file_path
from ooc_graph.report.graph500 import in_seconds
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
            shell_complete=shared.complete_path,
            help="FILE: vertices, one per line. N: a fixed pseudo-random sample of N vertices that "
            "have edges. all: every vertex.",
        ),
        click.option(
            "--targets",
            type=shared.PATH,
            metavar="FILE",
            help="Find distances only to the vertices in this file, one per line.",
        ),
        click.option(
            "--reduce",
            type=click.Choice(["eccentricity", "closeness", "sum", "histogram"]),
            help="Write one number per source (histogram: counts) instead of its distances.",
        ),
        click.option("--bins", type=int, metavar="N", help="Number of histogram bins [64]."),
    ]
    searching = [
        click.option(
            "--cutoff",
            type=Number(),
            metavar="X",
            help="Treat vertices farther than X as unreached.",
        ),
        click.option(
            "--bin-width",
            type=Number(),
            metavar="X",
            help="Histogram bin width [integers: 1; floats: required].",
        ),
    ]
    return shared.together(*options, *([] if for_plan else searching))


parents_option = click.option(
    "--parents", is_flag=True, help="Write the parent of each vertex on its path, too."
)


def given_sources(graph: Graph, sources: str) -> IntArray | None:
    """Original ids of ``--sources``; None: all."""
    from ooc_graph.api.vertices import drawn, ids_in  # noqa: PLC0415

    if sources == "all":
        return None
    # So long that there are fewer vertices it is no number, and taken for a file's name.
    is_number = sources.isdecimal() and sources.isascii() and len(sources) < 20
    return drawn(graph, int(sources)) if is_number else ids_in(file_path(sources, "--sources"))


@command("""\
ooc-graph apsp roads.zarr --out all.zarr
ooc-graph apsp roads.zarr --sources 100 --reduce closeness --out closeness.zarr""")
@click.argument("graph", type=shared.STORE)
@shared.result_option
@many_options("all")
@parents_option
@shared.json_option
@shared.cuda_memory_options
@shared.common_options
def apsp(graph: str | Path, out: Path, parents: bool, **given: Any) -> None:
    """Find shortest paths between all pairs, or from many sources.

    Weights may be negative (Johnson's algorithm).
    """
    run_many(graph, out, given, parents=parents)


def run_many(
    graph: str | Path, out: Path, given: dict[str, Any], parents: bool = False, hops: bool = False
) -> None:
    """Search from many sources with the values of all options, and print what was done."""
    import numpy as np  # noqa: PLC0415

    from ooc_graph.answers.asked import Asked  # noqa: PLC0415
    from ooc_graph.answers.reductions import BINS, HISTOGRAM, Bins  # noqa: PLC0415
    from ooc_graph.api.vertices import ids_in, positions_of  # noqa: PLC0415
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
    found = {"values": reduce or what, "sources": len(chosen), "vertices": opened.vertices}
    took = "" if result.elapsed_s is None else f" in {in_seconds(result.elapsed_s)}"
    said = f"{name}: {reduce or what} of {len(chosen):,} sources{took}; {out}"
    show(result, out, said, found, as_json=given["as_json"])
