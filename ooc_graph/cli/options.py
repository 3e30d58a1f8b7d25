"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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
        if value == "":
            self.fail("an empty word is no path", param, ctx)
        return super().convert(value, param, ctx)


PATH = FilePath()

shards_option = click.option("--shards", type=int, help="Virtual shards, a power of two [by size].")
compress_option = click.option(
    "--compress",
    is_flag=True,
    help="Store offsets, neighbours and integer weights in as few bits as do.",
)
result_option = click.option("--out", type=PATH, required=True, help="Result store.")
exchange_option = click.option(
    "--exchange",
    type=click.Choice(["auto", "scheduler"]),
    default="auto",
    show_default=True,
    help="auto: one worker if the graph fits it.",
)
quiet_option = click.option("--quiet", is_flag=True, help="No progress on stderr.")


def device_memory_option(default: str) -> Callable[[Command], Command]:
    """Option that says how much of a CUDA device may be used, and in words what else is."""
    return click.option(
        "--device-memory",
        metavar="SIZE",
        help=f"Memory of a CUDA device, such as 16GiB [{default}].",
    )


cuda_memory_options = together(
    device_memory_option("15/16 of what it has"),
    click.option(
        "--host-memory",
        metavar="SIZE",
        help="Host memory for rows that do not fit it; 0: none is pinned [as --memory-limit].",
    ),
)
common_options = together(
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="Where kernels run; auto: CUDA if there is a device that will do.",
    ),
    click.option(
        "--workers",
        type=int,
        metavar="N",
        help="Worker processes [1; CPU, one search or Graph500: none; CUDA: one a device].",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Join this Dask cluster instead."),
    click.option("--tls", metavar="CA,CERT,KEY", help="Files for a tls:// scheduler."),
    click.option(
        "--memory-limit",
        metavar="SIZE",
        help="Host memory of all processes started, such as 4GiB [80 % of what is free].",
    ),
    quiet_option,
    click.option("--overwrite", is_flag=True, help="Replace outputs that exist."),
)
