"""The command ``ooc-graph`` and its subcommands as a process: signals, errors, exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

import click

from ooc_graph import __version__
from ooc_graph.boundary import for_command, own_errors
from ooc_graph.cli import interrupts_end
from ooc_graph.errors import DiskFullError, OocGraphError, UnexpectedError
from ooc_graph.garbage import uncollected
from ooc_graph.runtime.signals import EXIT_TERMINATED, Terminated, exit_on_sigterm

_COMMANDS = {
    "Graphs": {"build": "graphs", "convert": "conversion", "graph500": "graphs"},
    "Searches": {
        "bfs": "searches",
        "sssp": "searches",
        "components": "searches",
        "pagerank": "ranking",
        "apsp": "many",
        "path": "paths",
        "plan": "stores",
    },
    "Stores and answers": dict.fromkeys(("info", "validate", "verify", "export"), "stores"),
    "Jobs": dict.fromkeys(("run", "status", "runs", "report"), "jobs"),
    "Setup": {"doctor": "doctor", "config": "configuration", "completion": "completion"},
}
"""Modules of the commands, by the headings of the help."""
_MODULE_OF = {name: module for names in _COMMANDS.values() for name, module in names.items()}


class Commands(click.Group):
    """Subcommands, each of them imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return sorted(_MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one of a name; a misspelt one is refused with the right one."""
        if cmd_name not in _MODULE_OF:
            if ctx.resilient_parsing:  # a shell completes a word
                return None
            from difflib import get_close_matches  # noqa: PLC0415 - it takes long to import

            if close := get_close_matches(cmd_name, _MODULE_OF, 1):
                ctx.fail(f"No such command {cmd_name!r}: did you mean {close[0]}?")
            return None
        with interrupts_end(), uncollected():
            module = import_module(f"ooc_graph.cli.{_MODULE_OF[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands under headings."""
        width = formatter.width - 6 - max(map(len, _MODULE_OF))
        for heading, names in _COMMANDS.items():
            found = {name: self.get_command(ctx, name) for name in names}
            rows = [(name, one.get_short_help_str(width)) for name, one in found.items() if one]
            with formatter.section(heading):
                formatter.write_dl(rows)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ooc-graph")
def command() -> None:
    """Shortest paths, components and PageRank on graphs bigger than memory.

    Build a graph store once, open it in a second, search it.
    """


def _show_usage(error: click.ClickException) -> None:
    """One line that says where to read on; the help itself if nothing was asked for."""
    if len(sys.argv) == 1:
        error.show()
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ooc-graph"
    message = " ".join(error.format_message().split())
    print(f"ooc-graph: {message} (see {path} --help)", file=sys.stderr)  # noqa: T201


def _where(error: OocGraphError) -> str:
    """What is full if the system names no file: all else that is written is named."""
    system = error.__cause__
    if not isinstance(error, DiskFullError) or not isinstance(system, OSError) or system.filename:
        return ""
    return "standard output: " if str(error).startswith(str(system)) else ""


def _open_streams() -> None:
    """Have standard streams that were closed, as under some daemons, lead to nowhere."""
    # In this order: each takes the lowest number, which is its own.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115


def run() -> int:
    """Carry out what ``sys.argv`` asks for; errors become one line and an exit code."""
    _open_streams()
    try:
        with (
            for_command(),
            exit_on_sigterm(),
            own_errors(click.ClickException, click.Abort, BrokenPipeError),
        ):
            command.main(prog_name="ooc-graph", standalone_mode=False)
    except OocGraphError as error:
        if isinstance(error, UnexpectedError):
            traceback.print_exception(error.__cause__)
        print(f"ooc-graph: {_where(error)}{error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return 2
    except (KeyboardInterrupt, click.Abort):
        print("ooc-graph: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    except Terminated as error:
        print(f"ooc-graph: stopped by {error.signal_name}", file=sys.stderr)  # noqa: T201
        return EXIT_TERMINATED
    except BrokenPipeError:
        # Nobody reads our output; let the interpreter's own flush at exit not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
