"""Commands that look at what was written: info, plan, verify, validate, export."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from ooc_graph.answers.export import check_target
from ooc_graph.answers.export import export as export_result
from ooc_graph.answers.result import Result
from ooc_graph.cli.groups import command
from ooc_graph.cli.many import given_sources, many_options, parents_option
from ooc_graph.cli.options import (
    PATH,
    STORE,
    cuda_memory_options,
    json_option,
    overwrite_option,
    quiet_option,
    size_option,
)
from ooc_graph.cli.tables import add_row, print_table
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import GRAPH500
from ooc_graph.model.resources import CPU, parse_bytes
from ooc_graph.remote.stores import local_path
from ooc_graph.report.progress import Progress
from ooc_graph.shards.load import Graph
from ooc_graph.types import Kernel


@command("ooc-graph info flights.zarr")
@click.argument("path", type=STORE)
@json_option
def info(path: str | Path, as_json: bool) -> None:
    """Print what a graph store or an answer holds."""
    stored = Stored.open(local_path(path))
    files = stored.manifest.files.values()
    facts = {
        "path": str(stored.path),
        "kind": stored.manifest.kind,
        **stored.attributes,
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "manifest_sha256": stored.manifest.sha256,
    }
    _show(facts, as_json)


@command("""\
ooc-graph plan roads.zarr --kernel sssp --memory-limit 4GiB
ooc-graph plan --kernel graph500 --scale 24""")
@click.argument("graph", type=STORE, required=False)
@click.option(
    "--kernel",
    type=click.Choice(
        ["bfs", "sssp", "pagerank", "weighted_pagerank", "apsp", "multi_source_bfs", GRAPH500]
    ),
    default="bfs",
    show_default=True,
    help="Search to plan for; apsp and multi_source_bfs search from many sources. "
    "weighted_pagerank: pagerank by weights. graph500: the whole benchmark, for which there is no "
    "graph yet.",
)
@click.option("--scale", type=int, help="For graph500: plan for 2^SCALE vertices.")
@many_options(None, for_plan=True)
@parents_option
@size_option("--memory-limit", "Host memory to plan for, such as 4GiB [80 % of what is free].")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Device to plan for.",
)
@cuda_memory_options
@json_option
def plan(
    graph: str | Path | None,
    kernel: Kernel,
    scale: int | None,
    as_json: bool,
    sources: str | None,
    targets: Path | None,
    bins: int | None,
    **given: Any,
) -> None:
    """Print what a search would keep in memory and on disk.

    The search is not made; it is planned for one worker.
    """
    from ooc_graph.answers.reductions import BINS, HISTOGRAM  # noqa: PLC0415
    from ooc_graph.api.plan import plan as plan_of  # noqa: PLC0415
    from ooc_graph.api.vertices import ids_in  # noqa: PLC0415
    from ooc_graph.strategies.many.tiers import KERNELS as MANY  # noqa: PLC0415

    if bins is not None and given["reduce"] != HISTOGRAM:
        raise UsageError("--bins is for --reduce histogram")
    if kernel == GRAPH500:
        if scale is None or graph is not None:
            raise UsageError(f"--kernel {GRAPH500}: give --scale N, and no graph")
        options = {"sources": sources, "targets": targets, **given}
        _show(plan_of(Kronecker(scale), kernel, **options), as_json)
        return
    if graph is None or scale is not None:
        raise UsageError(f"give a graph; --scale is for --kernel {GRAPH500}")
    opened = Graph.open(graph)
    is_given = sources is not None and kernel in MANY
    many: dict[str, Any] = {
        "sources": given_sources(opened, str(sources)) if is_given else sources,
        "targets": None if targets is None else ids_in(targets),
        "bins": BINS if bins is None else bins,
    }
    _show(plan_of(opened, kernel, **many, **given), as_json)


@command("ooc-graph verify flights.zarr")
@click.argument("path", type=STORE)
@quiet_option
def verify(path: str | Path, quiet: bool) -> None:
    """Compare every file of a store with its manifest."""
    stored = Stored.open(local_path(path))
    total = sum(entry.size for entry in stored.manifest.files.values())
    with Progress(quiet) as progress, progress.stage("verifying", total, "bytes") as bar:
        stored.verify(bar.advance)
    click.echo(f"{path}: {len(stored.manifest.files)} files, {total:,} bytes, all as written")


@command("ooc-graph validate flights.zarr hops.zarr cost.zarr")
@click.argument("graph", type=STORE)
@click.argument("answers", type=PATH, nargs=-1, required=True, metavar="ANSWER...")
@json_option
@size_option("--memory-limit", "Host memory to use, such as 4GiB [80 % of what is free].")
@quiet_option
def validate(
    graph: str | Path,
    answers: tuple[Path, ...],
    as_json: bool,
    memory_limit: str | None,
    quiet: bool,
) -> None:
    """Check answers of searches and of PageRank against their graph.

    The exit code is 1 if an answer breaks a rule.
    """
    from ooc_graph.runtime.stored_answers import check_answers  # noqa: PLC0415
    from ooc_graph.runtime.workplace import workplace_for  # noqa: PLC0415

    workplace, opened = workplace_for(None, parse_bytes(memory_limit), CPU), Graph.open(graph)
    with Progress(quiet) as progress:
        verdicts = check_answers(opened, answers, workplace, progress)
    if as_json:
        facts = zip(answers, map(asdict, verdicts), strict=True)
        click.echo(json.dumps([{"path": str(path)} | fact for path, fact in facts], indent=1))
    faults = []
    for path, one in zip(answers, verdicts, strict=True):
        said = f"{path}: valid: {one.found}"
        if not one.ok:
            said = f"{path}: breaks rule '{one.rule}': {one.message}"
            faults.append(said)
        if not as_json:
            click.echo(said)
    if faults:
        raise ValidationFailedError(faults[0])


@command("ooc-graph export cost.zarr cost.parquet")
@click.argument("result", type=PATH, metavar="ANSWER")
@click.argument("file", type=PATH)
@quiet_option
@overwrite_option
def export(result: Path, file: Path, quiet: bool, overwrite: bool) -> None:
    """Write an answer as FILE.{parquet,csv,tsv,npz}."""
    opened = Result.open(result)
    check_target(file, overwrite=overwrite)
    with Progress(quiet) as progress, progress.stage("exporting"):
        export_result(opened, file, overwrite=overwrite)
    click.echo(str(file))


def _show(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts as JSON, or as a table."""
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        for key, text in _rows(name, value):
            add_row(table, key.replace("_", " "), text)
    print_table(table)


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(f"{name}: {key}", inner)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        # Files that edges were read from; some may have the same name.
        parts = [(item["name"], {k: v for k, v in item.items() if k != "name"}) for item in value]
        return [row for part, facts in parts for row in _rows(f"{name}: {part}", facts)]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(name, f"{value:,}" if name not in ("root", "first_id") else str(value))]
    return [(name, "-" if value is None else str(value))]
