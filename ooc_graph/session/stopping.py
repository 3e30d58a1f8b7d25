"""A process that is told to stop does so, wherever the signal finds it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import sleep
from typing import Any

from ooc_graph.threads import Members

EXIT_TERMINATED = 143
_AGAIN_S = 0.01


class Terminated(SystemExit):
    """SIGTERM came; raised in the main thread so that everything is cleaned up."""


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Context in which SIGTERM ends the process with code 143, cleaned up, as Ctrl-C does with 130.

    Python drops what a signal's handler raises where the garbage collector, a weak reference or
    ``__del__`` calls Python code, and the process would go on: there the signal is sent once more.
    For the main thread.

    Raises
    ------
    SystemExit
        When SIGTERM comes.
    MemoryError
        The system starts no further thread.
    """
    # Begun here: where a signal is dropped, a thread may be refused.
    sender = Members(1, "ooc-graph-signals")
    handler, hook = signal.signal(signal.SIGTERM, _terminate), sys.unraisablehook

    def send_again(dropped: Any) -> None:
        number = _NUMBERS.get(dropped.exc_type)
        if number is None:
            hook(dropped)
        else:
            sender.give(0, partial(_send, number))

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        try:
            # What is to be sent once more comes while there is who takes it.
            sender.close()
        finally:
            sys.unraisablehook = hook
            # None stands for a handler that Python knows nothing of, and cannot put back.
            if handler is not None:
                signal.signal(signal.SIGTERM, handler)


_NUMBERS: dict[Any, int] = {Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}


def _send(number: int) -> None:
    # At once it would be dropped again.
    sleep(_AGAIN_S)
    os.kill(os.getpid(), number)


def _terminate(*_: Any) -> None:
    raise Terminated(EXIT_TERMINATED)
