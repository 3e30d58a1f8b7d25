"""Signals that come where Python drops what their handlers raise."""

from __future__ import annotations

import gc
import signal
import sys
import threading

import pytest

import ooc_graph as og
from tests.command_line import script

# A signal inside a callback of the garbage collector; Dask has such callbacks.
CHILD = """
import gc, os, signal, sys, threading, time
import ooc_graph as og

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was ignored
number, how = int(sys.argv[1]), sys.argv[2]

def collecting(phase, info):
    gc.callbacks.remove(collecting)
    os.kill(os.getpid(), number)

try:
    with og.exit_on_sigterm():
        if how == "where no thread is started":
            threading.stack_size(1 << 46)  # no address space has room for it
        gc.callbacks.append(collecting)
        gc.collect(0)
        # In one long sleep Python may begin it with the signal noted already, and end it first.
        for _ in range(0 if how == "at the end" else 6000):
            time.sleep(0.01)
finally:
    print("cleaned up")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["", "where no thread is started", "at the end"])
def test_a_signal_inside_a_callback_is_not_lost(number: signal.Signals, how: str) -> None:
    ended = script("-c", CHILD, int(number), how)
    assert ended.out == "cleaned up\n"
    if number == signal.SIGTERM:
        assert (ended.code, ended.err) == (143, "")
    else:
        assert ended.code == -signal.SIGINT
        assert ended.err.endswith("KeyboardInterrupt\n")
        assert "ignored" not in ended.err


def test_what_else_is_dropped_is_shown_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    # What others left is none of this test's.
    gc.collect()
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    handler = signal.getsignal(signal.SIGTERM)
    with og.exit_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) != handler
        Broken()
    assert [dropped.exc_type for dropped in shown] == [ValueError]
    assert sys.unraisablehook == shown.append
    assert signal.getsignal(signal.SIGTERM) == handler


def test_what_is_left_half_made_goes_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)

    class Made:
        def __init__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            self.whole = True

        def __del__(self) -> None:
            gone.append(self)
            assert self.whole

    gone: list[Made] = []
    with pytest.raises(SystemExit) as ended, og.exit_on_sigterm():
        Made()
    assert len(gone) == 1
    assert not shown
    assert ended.value.code == 143


def test_sigterm_ends_the_context() -> None:
    with pytest.raises(SystemExit) as ended, og.exit_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143
    assert not [t for t in threading.enumerate() if t.name.startswith("ooc-graph-signals")]
