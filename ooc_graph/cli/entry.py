"""The command as a process: signals, one line for an error, exit codes."""

from __future__ import annotations

import os
import sys

import click

from ooc_graph.cli.group import command
from ooc_graph.errors import NO_ROOM, MemoryBudgetError, OocGraphError, RetryableError
from ooc_graph.session.stopping import EXIT_TERMINATED, Terminated, exit_on_sigterm
from ooc_graph.threads import is_refusal


def _show_usage(error: click.ClickException) -> None:
    """One line that says where to read on; the help itself where nothing was asked for."""
    if len(sys.argv) == 1:
        error.show()
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ooc-graph"
    message = " ".join(error.format_message().split())
    print(f"ooc-graph: {message} (see {path} --help)", file=sys.stderr)  # noqa: T201


def _system_error(error: OSError | MemoryError | RuntimeError) -> int:
    if isinstance(error, RuntimeError) and not is_refusal(error):
        raise error
    if isinstance(error, MemoryError | RuntimeError):
        why = f" ({error})" if str(error) else ""
        advice = "free some, or give a smaller --memory-limit"
        print(f"ooc-graph: the system refuses memory{why}: {advice}", file=sys.stderr)  # noqa: T201
        return MemoryBudgetError.exit_code
    if isinstance(error, BrokenPipeError):
        # Nobody reads our output; let the interpreter's own flush at exit not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    is_full = error.errno in NO_ROOM
    # Whatever else is written says what it is.
    where = "standard output: " if is_full and error.filename is None else ""
    print(f"ooc-graph: {where}{error}", file=sys.stderr)  # noqa: T201
    return RetryableError.exit_code if is_full else 1


def run() -> int:
    """Carry out what ``sys.argv`` asks for; errors become one line and an exit code."""
    try:
        with exit_on_sigterm():
            command.main(prog_name="ooc-graph", standalone_mode=False)
    except OocGraphError as error:
        print(f"ooc-graph: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return 2
    except (KeyboardInterrupt, click.Abort):
        print("ooc-graph: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    except Terminated:
        print("ooc-graph: stopped by SIGTERM", file=sys.stderr)  # noqa: T201
        return EXIT_TERMINATED
    except (OSError, MemoryError, RuntimeError) as error:
        return _system_error(error)
    return 0
