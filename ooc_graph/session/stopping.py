"""A process that is told to stop does so, wherever the signal finds it."""

from __future__ import annotations

import os
import signal
import sys
import threading
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


@contextmanager
def signals_held() -> Iterator[None]:
    """Context in which SIGINT and SIGTERM are noted; at its end the first does what it is to do.

    For what takes seconds and cannot be undone half-way. Signals that are ignored stay so, and
    other threads than the main one never hear of any.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in _NUMBERS.values():
            handler = signal.getsignal(number)
            # None stands for a handler that Python knows nothing of, and cannot put back.
            if handler not in (None, signal.SIG_IGN):
                before[number] = handler
                signal.signal(number, lambda number, _: noted.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noted:
            _take(noted[0], before[noted[0]])


def _take(number: int, handler: Any) -> None:
    """Have a signal do what its handler says, here and now."""
    if callable(handler):
        handler(number, None)
    else:
        signal.raise_signal(number)


_NUMBERS: dict[Any, int] = {Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}


def _send(number: int) -> None:
    # At once it would be dropped again.
    sleep(_AGAIN_S)
    os.kill(os.getpid(), number)


def _terminate(*_: Any) -> None:
    raise Terminated(EXIT_TERMINATED)
