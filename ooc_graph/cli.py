"""The command ``ooc-graph``."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ooc_graph import __version__
from ooc_graph.answers.export import check_target
from ooc_graph.answers.export import export as export_result
from ooc_graph.answers.result import Result
from ooc_graph.edges import FORMATS, open_source
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import (
    OocGraphError,
    OutputExistsError,
    RetryableError,
    UsageError,
    ValidationFailedError,
)
from ooc_graph.layout.stored import Stored
from ooc_graph.report.progress import Progress
from ooc_graph.session.machine import default_limit_bytes, parse_bytes
from ooc_graph.shards.load import Graph

EXIT_TERMINATED = 143
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Terminated(BaseException):
    """SIGTERM came; raised in the main thread so that everything is cleaned up."""


def _common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that all working commands have."""
    options = [
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="auto",
            show_default=True,
            help="Where kernels run.",
        ),
        click.option("--workers", type=int, metavar="N", help="Worker processes to start [1]."),
        click.option("--scheduler", metavar="ADDRESS", help="Join this Dask cluster instead."),
        click.option("--tls", metavar="CA,CERT,KEY", help="Files for a tls:// scheduler."),
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="For all processes that are started, such as 4GiB [80 % of what is free].",
        ),
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        click.option("--overwrite", is_flag=True, help="Replace outputs that exist."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _read_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how edge files are read."""
    options = [
        click.option(
            "--format", "format_", type=click.Choice(sorted(FORMATS)), help="File format."
        ),
        click.option(
            "--directed/--undirected",
            "directed",
            default=None,
            help="Override what the file says.",
        ),
        click.option(
            "--weight", metavar="COLUMN", help="Weights: column name or number from 0, or none."
        ),
        click.option(
            "--columns", metavar="A,B", help="Source and target: names or numbers from 0."
        ),
        click.option(
            "--delimiter", metavar="CHAR", help="Of separated values: a character, tab or space."
        ),
        click.option(
            "--header/--no-header", default=None, help="Whether the first line names columns."
        ),
        click.option("--weight-type", type=click.Choice(["int", "float32", "float64"])),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ooc-graph")
def command() -> None:
    """BFS, SSSP and connected components on graphs bigger than memory.

    Build a graph store once, open it in a second, search it.
    """


@command.command()
@click.option("--scale", type=int, required=True, help="log2 of the number of vertices.")
@click.option("--edge-factor", type=int, default=16, show_default=True, help="Edges per vertex.")
@click.option(
    "--seeds", type=int, nargs=2, default=(2, 3), show_default=True, help="Generator seeds."
)
@click.option("--searches", type=int, default=64, show_default=True, help="Search keys per kernel.")
@click.option("--kernels", default="bfs,sssp", show_default=True, help="bfs, sssp or both.")
@click.option("--shards", type=int, help="Virtual shards, a power of two [by size].")
@click.option("--no-validation", is_flag=True, help="Do not check the answers.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for graph, records and report."
)
@_common
def graph500(
    scale: int,
    edge_factor: int,
    seeds: tuple[int, int],
    searches: int,
    kernels: str,
    shards: int | None,
    no_validation: bool,
    out: Path | None,
    **common: Any,
) -> None:
    """Run Graph500: generate, build, search, validate, report."""
    from ooc_graph.session.graph500 import graph500 as run  # noqa: PLC0415
    from ooc_graph.session.graph500_run import Graph500Options  # noqa: PLC0415

    options = Graph500Options(
        scale=scale,
        edge_factor=edge_factor,
        seeds=seeds,
        searches=searches,
        kernels=tuple(kernels.split(",")),
        shards=shards,
        validate=not no_validation,
    )
    # Refuses what no generator can make before a cluster is started.
    Kronecker(scale, edge_factor=edge_factor, seeds=seeds)
    folder = out or Path(f"graph500-scale{scale}")
    if folder.exists() and not folder.is_dir():
        raise OutputExistsError(f"{folder}: is a file; give --out the name of a folder")
    _refuse_existing(folder / "graph.zarr", common["overwrite"])
    with _empty_folder_removed(folder), _working(common) as (client, progress):
        outcome = run(
            options,
            folder,
            client=client,
            memory_limit_bytes=_limit(common, client),
            progress=progress,
            overwrite=common["overwrite"],
            command=["ooc-graph", *sys.argv[1:]],
        )
    click.echo(outcome.block, nl=False)
    click.echo(f"report: {outcome.page}", err=True)
    if outcome.failure is not None:
        raise ValidationFailedError(outcome.failure)


@command.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE... OUT.zarr")
@_read_options
@click.option("--rows", type=click.Choice(["hub", "light", "both"]), help="Row orders to store.")
@click.option("--shards", type=int, help="Virtual shards, a power of two [by size].")
@_common
def build(
    sources: tuple[str, ...],
    format_: str | None,
    directed: bool | None,
    weight: str | None,
    columns: str | None,
    delimiter: str | None,
    header: bool | None,
    weight_type: str | None,
    rows: str | None,
    shards: int | None,
    **common: Any,
) -> None:
    """Build a graph store from edge files; the last argument is the store."""
    from ooc_graph.session.api import build_with_report  # noqa: PLC0415
    from ooc_graph.shards.build import BuildOptions  # noqa: PLC0415

    *inputs, out = sources
    if not inputs:
        raise UsageError("give at least one edge file and then the store to write")
    _refuse_folder(Path(out))
    _refuse_existing(Path(out), common["overwrite"])
    source = open_source(
        inputs if len(inputs) > 1 else inputs[0],
        format=format_,
        directed=directed,
        weight=None if weight is None else _number(weight),
        columns=None if columns is None else [_number(name) for name in columns.split(",")],
        delimiter=delimiter,
        header=header,
        weight_type=weight_type,
    )
    options = BuildOptions(rows=rows, shards=shards, overwrite=common["overwrite"])
    options.orders(source.weighted)
    with _working(common) as (client, progress):
        graph, report = build_with_report(
            source,
            Path(out),
            options,
            client=client,
            memory_limit=_limit(common, client),
            progress=progress,
        )
    click.echo(f"{out}: {graph.summary}, built in {report.elapsed_s:.1f} s")


def _search_command(kernel: str, summary: str) -> None:
    @command.command(kernel, help=summary)
    @click.argument("graph", type=click.Path(path_type=Path))
    @click.option("--source", type=int, required=True, help="Vertex to begin at, as in your input.")
    @click.option("--out", type=click.Path(path_type=Path), required=True, help="Result store.")
    @click.option(
        "--exchange",
        type=click.Choice(["auto", "local", "scheduler"]),
        default="auto",
        show_default=True,
        help="auto: one worker where the graph fits it.",
    )
    @click.option(
        "--method",
        type=click.Choice(["rows", "edges"]),
        default="rows",
        show_default=True,
        help="edges: each edge once; less memory, one worker.",
    )
    @_common
    def run(graph: Path, source: int, out: Path, exchange: str, method: str, **common: Any) -> None:
        from ooc_graph.session.place import place_for  # noqa: PLC0415
        from ooc_graph.session.resident import ORDER_OF  # noqa: PLC0415
        from ooc_graph.session.search import search  # noqa: PLC0415

        opened = Graph.open(graph)
        opened.require(ORDER_OF[kernel])
        opened.position_of(source)
        _refuse_folder(out)
        _refuse_existing(out, common["overwrite"])
        with _working(common) as (client, progress):
            result = search(
                opened,
                kernel,
                source,
                place=place_for(client, _limit(common, client)),
                progress=progress,
                out=out,
                exchange=exchange,
                method=method,
                overwrite=common["overwrite"],
            )
        reached = int(result.reached.sum())
        click.echo(
            f"{kernel} from {source}: {reached:,} of {opened.vertices:,} vertices reached "
            f"in {result.elapsed_s:.6g} s; {out}"
        )


_search_command("bfs", "Breadth-first search: levels and parents.")
_search_command("sssp", "Single-source shortest paths on weights of zero or more.")


@command.command()
@click.argument("graph", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Result store.")
@click.option(
    "--exchange",
    type=click.Choice(["auto", "local", "scheduler"]),
    default="auto",
    show_default=True,
    help="auto: one worker where the graph fits it.",
)
@_common
def components(graph: Path, out: Path, exchange: str, **common: Any) -> None:
    """Weakly connected components: the smallest id in the component of each vertex."""
    from ooc_graph.session.components import components as find_components  # noqa: PLC0415
    from ooc_graph.session.place import place_for  # noqa: PLC0415

    opened = Graph.open(graph)
    _refuse_folder(out)
    _refuse_existing(out, common["overwrite"])
    with _working(common) as (client, progress):
        result = find_components(
            opened,
            place=place_for(client, _limit(common, client)),
            progress=progress,
            out=out,
            exchange=exchange,
            overwrite=common["overwrite"],
        )
    click.echo(
        f"components: {result.count:,} of {opened.vertices:,} vertices "
        f"in {result.elapsed_s:.6g} s; {out}"
    )


@command.command()
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


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def verify(path: Path, quiet: bool) -> None:
    """Read everything in a store and compare it with the manifest."""
    stored = Stored.open(path)
    total = sum(entry.size for entry in stored.manifest.files.values())
    with Progress(quiet) as progress, progress.stage("verifying", total, "bytes") as bar:
        stored.verify(bar.advance)
    click.echo(f"{path}: {len(stored.manifest.files)} files, {total:,} bytes, all as written")


@command.command()
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def export(result: Path, file: Path, quiet: bool, overwrite: bool) -> None:
    """Write a result as FILE.{parquet,csv,tsv,npz}."""
    opened = Result.open(result)
    check_target(file, overwrite=overwrite)
    with Progress(quiet) as progress, progress.stage("exporting"):
        export_result(opened, file, overwrite=overwrite)
    click.echo(str(file))


@contextmanager
def _working(common: dict[str, Any]) -> Iterator[tuple[Any, Progress]]:
    """Cluster and progress of a working command."""
    from ooc_graph.session.cluster import joined_cluster, local_cluster  # noqa: PLC0415

    _refuse_device(common["device"])
    if common["scheduler"] and common["workers"] is not None:
        raise UsageError("--workers starts a cluster and --scheduler joins one: give one of them")
    parse_bytes(common["memory_limit"])
    cluster = (
        joined_cluster(common["scheduler"], common["tls"])
        if common["scheduler"]
        else local_cluster(1 if common["workers"] is None else common["workers"])
    )
    with cluster as client, Progress(common["quiet"]) as progress:
        yield client, progress


@contextmanager
def _empty_folder_removed(folder: Path) -> Iterator[None]:
    """A refused run leaves no empty folder behind; one that was there before stays."""
    was_there = folder.exists()
    try:
        yield
    finally:
        if not was_there:
            # It is kept where something is in it.
            with suppress(OSError):
                folder.rmdir()


def _refuse_device(device: str) -> None:
    if device == "cuda":
        raise UsageError("--device cuda: this version has no CUDA kernels yet; use --device cpu")


def _limit(common: dict[str, Any], client: Any) -> int | None:
    """Limit for what this command starts; other people's clusters bring their own."""
    limit = parse_bytes(common["memory_limit"])
    if limit is None and not common["scheduler"] and client is not None:
        return default_limit_bytes()
    return limit


def _refuse_existing(out: Path, overwrite: bool) -> None:
    """Before a cluster is started; the commit checks again."""
    if out.exists() and not overwrite:
        raise OutputExistsError(f"{out}: exists already; give --overwrite to replace it")


def _refuse_folder(out: Path) -> None:
    if not out.absolute().parent.is_dir():
        raise OutputExistsError(f"{out.parent}: no such folder to write {out.name} into")


def _number(name: str) -> str | int:
    """A column is called by its name, or by its number from 0."""
    return int(name) if name.isdecimal() else name


def _show_usage(error: click.ClickException) -> None:
    """One line that says where to read on; the help itself where nothing was asked for."""
    if len(sys.argv) == 1:
        error.show()
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ooc-graph"
    message = " ".join(error.format_message().split())
    print(f"ooc-graph: {message} (see {path} --help)", file=sys.stderr)  # noqa: T201


def _system_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        # Nobody reads our output; let the interpreter's own flush at exit not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    print(f"ooc-graph: {error}", file=sys.stderr)  # noqa: T201
    return RetryableError.exit_code if error.errno in _DISK_FULL else 1


def _quietly(function: Callable[..., int]) -> Callable[..., int]:
    """Turn errors into one line and an exit code."""

    @wraps(function)
    def run(*arguments: Any) -> int:
        try:
            return function(*arguments)
        except OocGraphError as error:
            print(f"ooc-graph: {error}", file=sys.stderr)  # noqa: T201
            return error.exit_code
        except click.ClickException as error:
            _show_usage(error)
            return 2
        except (KeyboardInterrupt, click.Abort):
            print("ooc-graph: interrupted", file=sys.stderr)  # noqa: T201
            return 130
        except _Terminated:
            print("ooc-graph: stopped by SIGTERM", file=sys.stderr)  # noqa: T201
            return EXIT_TERMINATED
        except OSError as error:
            return _system_error(error)

    return run


def _terminate(*_: Any) -> None:
    raise _Terminated


@_quietly
def _main() -> int:
    signal.signal(signal.SIGTERM, _terminate)
    command.main(prog_name="ooc-graph", standalone_mode=False)
    return 0


def main() -> None:
    """Entry point; exits with the codes that the documentation lists."""
    sys.exit(_main())
