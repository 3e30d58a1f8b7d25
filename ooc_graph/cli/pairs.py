"""The command ``apsp``: distances from many sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ooc_graph.cli.options import common_options, result_option
from ooc_graph.cli.working import limit, refuse_out, working
from ooc_graph.shards.load import Graph


@click.command()
@click.argument("graph", type=click.Path(path_type=Path))
@result_option
@click.option(
    "--sources",
    default="all",
    show_default=True,
    metavar="FILE|N|all",
    help="A file of vertices, one a line; or how many, drawn at random, always the same.",
)
@click.option(
    "--targets",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Distances to the vertices of this file only.",
)
@click.option("--cutoff", type=float, metavar="X", help="Farther than this is unreached.")
@click.option(
    "--reduce",
    type=click.Choice(["eccentricity", "closeness", "sum", "histogram"]),
    help="A number for each source, or counts, instead of its distances.",
)
@click.option("--bins", type=int, metavar="N", help="Bins of a histogram.  [default: 64]")
@click.option(
    "--bin-width", type=float, metavar="X", help="Their width; of integers 1 if not given."
)
@click.option("--parents", is_flag=True, help="Also each vertex's parent on its way.")
@common_options
def apsp(
    graph: Path,
    out: Path,
    sources: str,
    targets: Path | None,
    cutoff: float | None,
    reduce: str | None,
    bins: int | None,
    bin_width: float | None,
    parents: bool,
    **common: Any,
) -> None:
    """All-pairs shortest paths (Johnson), or from many sources; weights of any sign."""
    import numpy as np  # noqa: PLC0415

    from ooc_graph.answers.pairs import Asked  # noqa: PLC0415
    from ooc_graph.answers.reductions import BINS, Bins  # noqa: PLC0415
    from ooc_graph.layout.names import LIGHT  # noqa: PLC0415
    from ooc_graph.session.pairs import pairs  # noqa: PLC0415
    from ooc_graph.session.place import place_for  # noqa: PLC0415
    from ooc_graph.session.sources import drawn, ids_in, places_of  # noqa: PLC0415

    opened = Graph.open(graph)
    opened.require(LIGHT, signed=True)
    if sources == "all":
        chosen = np.arange(opened.vertices)
    else:
        # So long that there are fewer vertices it is no number, and taken for a file's name.
        is_number = sources.isdecimal() and sources.isascii() and len(sources) < 20
        ids = drawn(opened, int(sources)) if is_number else ids_in(Path(sources))
        chosen = places_of(opened, ids)
    aimed = None if targets is None else places_of(opened, ids_in(targets), "targets")
    counted = Bins(BINS if bins is None else bins, bin_width)
    asked = Asked(aimed, cutoff, reduce, parents, counted)
    refuse_out(out, common["overwrite"])
    with working(common, for_cuda=False) as (client, progress):
        result = pairs(
            opened,
            chosen,
            asked,
            place=place_for(client, limit(common, client), common["device"]),
            progress=progress,
            out=out,
            overwrite=common["overwrite"],
        )
    what = "distances" if reduce is None else reduce
    click.echo(f"apsp: {what} of {len(chosen):,} sources in {result.elapsed_s:.6g} s; {out}")
