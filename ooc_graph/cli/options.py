"""Options that several commands have, and what these commands work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ooc_graph.cli.logs import explain
from ooc_graph.errors import UsageError
from ooc_graph.model.resources import CPU, CUDA, NO_LIMITS, CudaLimits, parse_bytes
from ooc_graph.remote.urls import file_path, is_url
from ooc_graph.report.progress import Progress
from ooc_graph.runtime.configured import configured_bytes, configured_device
from ooc_graph.runtime.devices import choose_in_process
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.settings import shows_progress

Command = Callable[..., Any]


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Some options as one decorator; the help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class FilePath(click.Path):
    """A path. An empty word, as of a variable that is not set, is none."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        try:
            return super().convert(file_path(value), param, ctx)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class StorePath(FilePath):
    """A path of a store, or the URL of one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a URL stays a string."""
        return value if is_url(value) else super().convert(value, param, ctx)


def complete_path(
    ctx: click.Context,  # noqa: ARG001 - click's signature
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Have the shell complete a path in the value of an argument that may be something else."""
    return [CompletionItem(incomplete, type="file")]


PATH, STORE = FilePath(), StorePath()

shards_option = click.option(
    "--shards",
    type=int,
    metavar="N",
    help="Number of virtual shards, a power of two [by the size of the graph].",
)
compress_option = click.option(
    "--compress",
    is_flag=True,
    help="Bit-pack offsets, neighbours and integer weights; answers are the same.",
)
result_option = click.option(
    "--out", type=PATH, required=True, metavar="ANSWER", help="Path of the answer's store."
)
exchange_option = click.option(
    "--exchange",
    type=click.Choice(["auto", "scheduler"]),
    default="auto",
    show_default=True,
    help="auto: one worker if the graph fits its memory, else partition across workers. "
    "scheduler: always partition.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
quiet_option = together(
    click.option(
        "--quiet/--progress",
        default=lambda: not shows_progress(),
        help="Hide or show progress on stderr [show].",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=explain,
        help="Log decisions on stderr, such as why no GPU is used.",
    ),
)


def size_option(name: str, said: str) -> Callable[[Command], Command]:
    """Option that says how much of a memory may be used."""
    return click.option(name, metavar="SIZE", help=said)


cuda_memory_options = together(
    size_option(
        "--device-memory", "GPU memory that may be used, such as 16GiB [15/16 of all it has]."
    ),
    size_option(
        "--host-memory",
        "Pinned host memory for adjacency that exceeds the GPU; 0 disables pinning "
        "[as --memory-limit].",
    ),
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an output that exists.")
where_options = together(
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="auto: a supported GPU (compute capability 8.0 or newer) if present, else the CPU.",
    ),
    click.option(
        "--workers",
        type=int,
        metavar="N",
        help="Start N worker processes [one search or Graph500 on the CPU: none; GPUs: one each; "
        "else 1].",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Join the Dask cluster of this scheduler instead, such as tcp://10.0.0.1:8786.",
    ),
    click.option("--tls", metavar="CA,CERT,KEY", help="Certificate files for a tls:// scheduler."),
    size_option(
        "--memory-limit",
        "Host memory of all started processes together, such as 4GiB [80 % of what is free].",
    ),
    quiet_option,
)
common_options = together(where_options, overwrite_option)


@contextmanager
def working(
    common: dict[str, Any], *, for_cuda: bool = True, needs_workers: bool = True
) -> Iterator[tuple[Any, Progress]]:
    """Cluster and progress of a working command; ``for_cuda``: CUDA devices can do the work.

    The cluster is None if this process does the work: on the CPU, if nobody asks for workers and
    the command does not need them.
    """
    if common["scheduler"] == "":
        raise UsageError("--scheduler: an empty word is no address; give tcp://HOST:PORT")
    if common["scheduler"] and common["workers"] is not None:
        raise UsageError("--workers starts a cluster and --scheduler joins one: give one of them")
    if common["tls"] and not common["scheduler"]:
        raise UsageError("--tls is for a cluster to join: give --scheduler tls://HOST:PORT too")
    parse_bytes(common["memory_limit"])
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(common["quiet"]))
        if common["scheduler"]:
            from ooc_graph.runtime.joined_cluster import joined_cluster  # noqa: PLC0415

            client = stack.enter_context(joined_cluster(common["scheduler"], common["tls"]))
        else:
            limits = CudaLimits.of(common.get("device_memory"), common.get("host_memory"))
            device = configured_device(common["device"], limits) if for_cuda else CPU
            workers = common["workers"]
            client = None
            if needs_workers or workers is not None or choose_in_process(device).name == CUDA:
                from ooc_graph.runtime.cluster import cluster_of_machine  # noqa: PLC0415

                client = stack.enter_context(cluster_of_machine(device, workers, progress.note))
        yield client, progress


@contextmanager
def searching(
    given: dict[str, Any],
    limits: CudaLimits = NO_LIMITS,
    *,
    for_cuda: bool,
    needs_workers: bool = True,
) -> Iterator[dict[str, Any]]:
    """Workplace and progress of a command that searches, and whether it may replace its output."""
    from ooc_graph.runtime.workplace import workplace_for  # noqa: PLC0415

    chosen = working(given, for_cuda=for_cuda, needs_workers=needs_workers)
    with chosen as (client, progress):
        limit_bytes = parse_bytes(given["memory_limit"]) if client is None else limit(given)
        workplace = workplace_for(client, limit_bytes, given["device"], limits, progress)
        overwrite = given.get("overwrite", False)
        yield {"workplace": workplace, "progress": progress, "overwrite": overwrite}


@contextmanager
def empty_folder_removed(folder: Path) -> Iterator[None]:
    """A refused run leaves no empty folder behind; one that was there before stays."""
    was_there = folder.exists()
    try:
        yield
    finally:
        if not was_there:
            # It is kept if something is in it.
            with suppress(OSError):
                folder.rmdir()


def cuda_limits(common: dict[str, Any]) -> CudaLimits:
    """Memory that searches on a CUDA device may use."""
    limits = CudaLimits.of(common["device_memory"], common["host_memory"])
    return limits.require_cuda(common["device"])


def limit(common: dict[str, Any]) -> int | None:
    """Limit for all that this command does; other people's clusters bring their own."""
    limit = configured_bytes("memory-limit", parse_bytes(common["memory_limit"]))
    return default_limit_bytes() if limit is None and not common["scheduler"] else limit
