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
from ooc_graph.cli.options import PATH, STORE, cuda_memory_options, quiet_option, size_option
from ooc_graph.cli.searches import given_sources, many_options
from ooc_graph.cli.tables import add_row, print_table
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import GRAPH500
from ooc_graph.model.resources import CPU, parse_bytes
from ooc_graph.remote.stores import local_path
from ooc_graph.report.progress import Progress
from ooc_graph.shards.load import Graph


@click.command()
@click.argument("path", type=STORE)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def info(path: str | Path, as_json: bool) -> None:
    """Say what a store holds."""
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


@click.command()
@click.argument("graph", type=STORE, required=False)
@click.option(
    "--kernel",
    type=click.Choice(
        ["bfs", "sssp", "pagerank", "weighted_pagerank", "apsp", "multi_source_bfs", GRAPH500]
    ),
    default="bfs",
    show_default=True,
    help="Search; apsp and multi_source_bfs are from many sources; weighted_pagerank is pagerank "
    "of a graph with weights. graph500: all that `ooc-graph "
    "graph500 --scale N` does, of which no graph is there yet.",
)
@click.option("--scale", type=int, help="Of graph500 alone: log2 of the number of vertices.")
@many_options(None, for_plan=True)
@click.option("--parents", is_flag=True, help="Also each vertex's parent on its way.")
@size_option("--memory-limit", "Memory of the worker, such as 4GiB [80 % of what is free].")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Where."
)
@cuda_memory_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def plan(
    graph: str | Path | None,
    kernel: str,
    scale: int | None,
    as_json: bool,
    sources: str | None,
    targets: Path | None,
    bins: int | None,
    **given: Any,
) -> None:
    """Say what a search by one worker holds in memory, and what stays elsewhere."""
    from ooc_graph.answers.reductions import BINS, HISTOGRAM  # noqa: PLC0415
    from ooc_graph.api.graphs import ids_in  # noqa: PLC0415
    from ooc_graph.api.plan import plan as plan_of  # noqa: PLC0415
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


@click.command()
@click.argument("path", type=STORE)
@quiet_option
def verify(path: str | Path, quiet: bool) -> None:
    """Read everything in a store and compare it with the manifest."""
    stored = Stored.open(local_path(path))
    total = sum(entry.size for entry in stored.manifest.files.values())
    with Progress(quiet) as progress, progress.stage("verifying", total, "bytes") as bar:
        stored.verify(bar.advance)
    click.echo(f"{path}: {len(stored.manifest.files)} files, {total:,} bytes, all as written")


@click.command()
@click.argument("graph", type=STORE)
@click.argument("answers", type=PATH, nargs=-1, required=True, metavar="ANSWER...")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@size_option("--memory-limit", "Host memory, such as 4GiB [80 % of what is free].")
@quiet_option
def validate(
    graph: str | Path,
    answers: tuple[Path, ...],
    as_json: bool,
    memory_limit: str | None,
    quiet: bool,
) -> None:
    """Hold answers of bfs, sssp and components against the graph they were searched on."""
    from ooc_graph.runtime.stored_answers import check_answers  # noqa: PLC0415
    from ooc_graph.runtime.this_process import ThisProcess  # noqa: PLC0415

    workplace, opened = ThisProcess(parse_bytes(memory_limit), CPU), Graph.open(graph)
    with Progress(quiet) as progress:
        verdicts = check_answers(opened, answers, workplace, progress)
    if as_json:
        facts = zip(answers, map(asdict, verdicts), strict=True)
        click.echo(json.dumps([{"path": str(path)} | fact for path, fact in facts], indent=1))
    faults = []
    for path, one in zip(answers, verdicts, strict=True):
        said = f"{path}: valid: {one.reached:,} vertices reached, {one.edges:,} edges between them"
        if not one.ok:
            said = f"{path}: breaks rule '{one.rule}': {one.message}"
            faults.append(said)
        if not as_json:
            click.echo(said)
    if faults:
        raise ValidationFailedError(faults[0])


@click.command()
@click.argument("result", type=PATH)
@click.argument("file", type=PATH)
@quiet_option
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def export(result: Path, file: Path, quiet: bool, overwrite: bool) -> None:
    """Write a result as FILE.{parquet,csv,tsv,npz}."""
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
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(name, f"{value:,}" if name not in ("root", "first_id") else str(value))]
    return [(name, "-" if value is None else str(value))]
