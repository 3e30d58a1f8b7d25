"""The command ``ooc-graph``: subcommands, options, exit codes, one line for an error."""

# What else there is takes seconds to import, and Ctrl-C may come before it is there.
from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ooc_graph.cli.entry import run
    from ooc_graph.cli.group import command
    from ooc_graph.runtime.signals import EXIT_TERMINATED

__all__ = ["EXIT_TERMINATED", "command", "main", "run"]

_INTERRUPTED = "ooc-graph: interrupted\n"
_EXIT_INTERRUPTED = 130
_MODULE_OF = {
    "EXIT_TERMINATED": "ooc_graph.runtime.signals",
    "command": "ooc_graph.cli.group",
    "run": "ooc_graph.cli.entry",
}


def main() -> None:
    """Entry point; exits with the codes that the documentation lists."""
    try:
        with _interrupts_end():
            from ooc_graph.cli.entry import run  # noqa: PLC0415
        code = run()
        _ignore_interrupts()
    except KeyboardInterrupt:  # a second one, while the first was reported
        _ignore_interrupts()
        sys.stderr.write(_INTERRUPTED)
        code = _EXIT_INTERRUPTED
    sys.exit(code)


@contextmanager
def _interrupts_end() -> Iterator[None]:
    """Context in which Ctrl-C ends the process at once: nothing is begun that wants an end.

    A module that is being imported may make anything of a KeyboardInterrupt.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # Ignored, as in the background of a shell; or somebody else's.
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_interrupts() -> None:
    """All is done and reported; the interpreter takes a moment to end, and would complain."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(*_: object) -> None:
    with suppress(OSError):
        os.write(2, _INTERRUPTED.encode())
    os._exit(_EXIT_INTERRUPTED)


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
