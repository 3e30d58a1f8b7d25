"""A process that is told to stop does so, wherever the signal finds it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

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
    """
    handler, hook = signal.signal(signal.SIGTERM, _terminate), sys.unraisablehook

    def send_again(dropped: Any) -> None:
        number = _NUMBERS.get(dropped.exc_type)
        if number is None:
            hook(dropped)
        else:
            # Later, since here it would be dropped again.
            Timer(_AGAIN_S, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        # None stands for a handler that Python knows nothing of, and cannot put back.
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


_NUMBERS: dict[Any, int] = {Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}


def _terminate(*_: Any) -> None:
    raise Terminated(EXIT_TERMINATED)
