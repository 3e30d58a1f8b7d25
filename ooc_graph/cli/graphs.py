"""Commands that make a graph: ``build``, and ``graph500``, which makes one and searches it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ooc_graph.cli import options as common
from ooc_graph.cli.groups import command
from ooc_graph.edges import FORMATS, open_source
from ooc_graph.edges.interface import EdgeSource, most_rows
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.edges.lines import is_count
from ooc_graph.errors import OutputExistsError, UsageError, ValidationFailedError
from ooc_graph.layout.outputs import refuse_existing, refuse_long_name, refuse_output
from ooc_graph.model.resources import CudaLimits
from ooc_graph.remote.urls import is_url, shown

read_options = common.together(
    click.option(
        "--format",
        "format_",
        type=click.Choice(sorted(FORMATS)),
        help="File format [by name and content].",
    ),
    click.option(
        "--directed/--undirected",
        "directed",
        default=None,
        help="Whether (u, v) leads from u to v only [as the file says, else undirected].",
    ),
    click.option(
        "--weight",
        metavar="COLUMN",
        help="Column of the weights, by name or by number from 0; none: read no weights.",
    ),
    click.option(
        "--columns",
        metavar="A,B",
        help="Columns of source and target, by name or by number from 0.",
    ),
    click.option(
        "--delimiter", metavar="CHAR", help="Separator of values: a character, tab or space."
    ),
    click.option(
        "--header/--no-header", default=None, help="Say whether the first line names the columns."
    ),
    click.option(
        "--weight-type",
        type=click.Choice(["int", "float32", "float64"]),
        help="Weight dtype [int64 if all are integers, else float64].",
    ),
)


@command("ooc-graph graph500 --scale 20 --out runs/scale20")
@click.option("--scale", type=int, required=True, help="Make a graph of 2^SCALE vertices.")
@click.option(
    "--edge-factor", type=int, default=16, show_default=True, help="Edges generated per vertex."
)
@click.option(
    "--seeds", type=int, nargs=2, default=(2, 3), show_default=True, help="Seeds of the generator."
)
@click.option("--searches", type=int, default=64, show_default=True, help="Searches per kernel.")
@click.option(
    "--kernels", default="bfs,sssp", show_default=True, help="Kernels to run: bfs, sssp or both."
)
@common.shards_option
@common.compress_option
@click.option("--no-energy", is_flag=True, help="Do not repeat searches to measure energy.")
@click.option("--no-validation", is_flag=True, help="Do not check the answers.")
@click.option(
    "--out",
    type=common.PATH,
    metavar="FOLDER",
    help="Folder for graph, records and report [graph500-scaleN].",
)
@common.cuda_memory_options
@common.common_options
def graph500(scale: int, searches: int, out: Path | None, **given: Any) -> None:
    """Run the Graph500 benchmark.

    It generates a graph, builds its store, searches, validates the answers and writes a report.
    """
    from ooc_graph.graph500.job import graph500 as run  # noqa: PLC0415
    from ooc_graph.graph500.run import Graph500Options, refuse_few_keys  # noqa: PLC0415

    options = Graph500Options(
        scale=scale,
        searches=searches,
        kernels=tuple(given["kernels"].split(",")),
        **{name: given[name] for name in ("edge_factor", "seeds", "shards", "compress")},
        validate=not given["no_validation"],
        energy=not given["no_energy"],
    )
    # Refuses what no device heeds and no generator can make before a cluster is started.
    common.cuda_limits(given)
    source = Kronecker(scale, edge_factor=given["edge_factor"], seeds=given["seeds"])
    options.building().require_filled(most_rows(source))
    folder = out or Path(f"graph500-scale{scale}")
    standing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not standing.is_dir():
        raise OutputExistsError(f"{standing}: is a file; give --out the name of a folder")
    refuse_long_name(folder / "graph.zarr")
    refuse_existing(folder / "graph.zarr", "graph", given["overwrite"])
    refuse_few_keys(source, searches)
    with (
        common.empty_folder_removed(folder),
        common.working(given, needs_workers=False) as (client, progress),
    ):
        outcome = run(
            options,
            folder,
            client=client,
            memory_limit_bytes=common.limit(given),
            device=given["device"],
            device_memory=given["device_memory"],
            host_memory=given["host_memory"],
            progress=progress,
            overwrite=given["overwrite"],
            command=["ooc-graph", *sys.argv[1:]],
        )
    click.echo(outcome.block, nl=False)
    for line in (*outcome.summary, f"report: {outcome.page}"):
        click.echo(line, err=True)
    if outcome.failure is not None:
        raise ValidationFailedError(outcome.failure)


@command("""\
ooc-graph build flights.csv flights.zarr --undirected
ooc-graph build --columns from,to --weight minutes part-*.parquet roads.zarr""")
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCE... OUT.zarr",
    shell_complete=common.complete_path,
)
@read_options
@click.option(
    "--rows",
    type=click.Choice(["hub", "light", "both"]),
    help="Order of each vertex's neighbours: hub for bfs, light for sssp [both, or hub if there "
    "are no weights].",
)
@common.shards_option
@common.compress_option
@common.size_option(
    "--device-memory", "GPU memory that may be used, such as 16GiB [nearly all that is free]."
)
@common.common_options
def build(sources: tuple[str, ...], **given: Any) -> None:
    """Build a graph store from edge files.

    The last argument is the store. Edges may also be at URLs (s3://, gs://, az://, https://).
    """
    from ooc_graph.runtime.building import build_with_report  # noqa: PLC0415
    from ooc_graph.runtime.workplace import workplace_for  # noqa: PLC0415
    from ooc_graph.shards.build_options import BuildOptions  # noqa: PLC0415

    if "" in sources:
        raise UsageError("an empty word is no path: name the edge files and then the store")
    *inputs, out = sources
    if not inputs:
        raise UsageError("give at least one edge file and then the store to write")
    if is_url(out):
        raise UsageError(f"{shown(out)}: stores are written to paths, not to URLs")
    limits = CudaLimits.of(given["device_memory"], None).require_cuda(given["device"])
    refuse_output(Path(out), "graph", given["overwrite"])
    source = edges_from(inputs, given)
    options = BuildOptions(given["rows"], given["shards"], given["overwrite"], given["compress"])
    options.orders(source.weighted)
    options.require_filled(most_rows(source))
    with common.working(given) as (client, progress):
        workplace = workplace_for(client, common.limit(given), given["device"], limits, progress)
        graph, report = build_with_report(workplace, source, Path(out), options, progress)
    click.echo(f"{out}: {graph.summary}, built in {report.elapsed_s:.1f} s")


def edges_from(inputs: Sequence[str], given: dict[str, Any]) -> EdgeSource:
    """Edge files opened with the values of `read_options`."""
    weight, columns = given["weight"], given["columns"]
    return open_source(
        inputs if len(inputs) > 1 else inputs[0],
        format=given["format_"],
        weight=None if weight is None else _number(weight),
        columns=None if columns is None else [_number(name) for name in columns.split(",")],
        **{name: given[name] for name in ("directed", "delimiter", "header", "weight_type")},
    )


def _number(name: str) -> str | int:
    """A column is called by its name, or by its number from 0."""
    return int(name) if is_count(name.encode()) else name
