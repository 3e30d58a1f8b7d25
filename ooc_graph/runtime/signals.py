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
from traceback import clear_frames
from typing import Any

from ooc_graph.threads import Members

EXIT_TERMINATED = 143
_AGAIN_S = 0.01


class Terminated(SystemExit):
    """SIGTERM or SIGHUP came; raised in the main thread so that everything is cleaned up."""

    signal_name = "SIGTERM"


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Context in which SIGTERM ends the process with code 143, cleaned up, as Ctrl-C does with 130.

    SIGHUP, from a terminal that was closed, does the same unless it is ignored, as under ``nohup``.
    If a signal's handler raises while the garbage collector, a weak reference or ``__del__`` calls
    Python code, Python drops the exception, and the process would continue. In that case the signal
    is sent again. Objects that the signal left half made are freed without a message. For the main
    thread.

    Raises
    ------
    SystemExit
        When SIGTERM or SIGHUP arrives.
    MemoryError
        The system refuses to start another thread.
    """
    # Begun here: where a signal is dropped, a thread may be refused.
    sender = Members(1, "ooc-graph-signals")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is not signal.SIG_DFL:
        del before[signal.SIGHUP]
    for each in before:
        signal.signal(each, _terminate)
    hook = sys.unraisablehook
    ended = False

    def send_again(dropped: Any) -> None:
        number = _NUMBERS.get(dropped.exc_type)
        if number is not None:
            sender.give(0, partial(_send, number))
        elif not ended:
            hook(dropped)

    sys.unraisablehook = send_again
    try:
        yield
    except Terminated as ending:
        ended = True
        # What was being made when the signal came may not know how to go.
        clear_frames(ending.__traceback__)
        raise
    finally:
        try:
            # What is to be sent once more comes while there is who takes it.
            sender.close()
        finally:
            sys.unraisablehook = hook
            for each, handler in before.items():
                # None stands for one that Python knows nothing of, and cannot put back.
                if handler is not None:
                    signal.signal(each, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Context in which SIGINT, SIGTERM and SIGHUP are noted; at its end the first is obeyed.

    For what takes seconds and cannot be undone half-way. Signals that are ignored stay so, and
    other threads than the main one never hear of any.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in (*_NUMBERS.values(), signal.SIGHUP):
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


def _terminate(number: int, _: Any) -> None:
    ending = Terminated(EXIT_TERMINATED)
    ending.signal_name = signal.Signals(number).name
    raise ending
