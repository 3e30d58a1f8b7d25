"""Commands that look at what was written: ``info``, ``verify``, ``export``."""

from __future__ import annotations

from pathlib import Path

import click

from ooc_graph.answers.export import check_target
from ooc_graph.answers.export import export as export_result
from ooc_graph.answers.result import Result
from ooc_graph.cli.options import quiet_option
from ooc_graph.layout.stored import Stored
from ooc_graph.report.progress import Progress


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def info(path: Path, as_json: bool) -> None:
    """Say what a store holds."""
    from ooc_graph.session.inspect import describe, print_table  # noqa: PLC0415

    facts = describe(Stored.open(path))
    if as_json:
        import json  # noqa: PLC0415

        click.echo(json.dumps(facts, indent=1))
    else:
        print_table(facts)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@quiet_option
def verify(path: Path, quiet: bool) -> None:
    """Read everything in a store and compare it with the manifest."""
    stored = Stored.open(path)
    total = sum(entry.size for entry in stored.manifest.files.values())
    with Progress(quiet) as progress, progress.stage("verifying", total, "bytes") as bar:
        stored.verify(bar.advance)
    click.echo(f"{path}: {len(stored.manifest.files)} files, {total:,} bytes, all as written")


@click.command()
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@quiet_option
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def export(result: Path, file: Path, quiet: bool, overwrite: bool) -> None:
    """Write a result as FILE.{parquet,csv,tsv,npz}."""
    opened = Result.open(result)
    check_target(file, overwrite=overwrite)
    with Progress(quiet) as progress, progress.stage("exporting"):
        export_result(opened, file, overwrite=overwrite)
    click.echo(str(file))
