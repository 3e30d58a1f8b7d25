"""The command ``ooc-graph``: subcommands, options, exit codes, one line for an error."""

# What else there is takes seconds to import, and Ctrl-C may come before it is there.
from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_INTERRUPTED = "ooc-graph: interrupted\n"
_EXIT_INTERRUPTED = 130


def main() -> None:
    """Entry point; exits with the codes that the documentation lists."""
    # As errors are: where in the source a warning was given says nothing to a user.
    warnings.formatwarning = lambda message, *_, **__: f"ooc-graph: {message}\n"
    try:
        with interrupts_end():
            from ooc_graph.cli.entry import run  # noqa: PLC0415
        code = run()
        _ignore_interrupts()
    except KeyboardInterrupt:  # a second one, while the first was reported
        _ignore_interrupts()
        sys.stderr.write(_INTERRUPTED)
        code = _EXIT_INTERRUPTED
    # The process ends: what is left goes with it, and Python need not look for garbage in it.
    gc.freeze()
    sys.exit(code)


@contextmanager
def interrupts_end() -> Iterator[None]:
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
