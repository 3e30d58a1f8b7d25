"""What the command makes of errors that nobody raised on purpose."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from ooc_graph.cli import entry


@pytest.mark.parametrize("said", ["", "Unable to allocate 7.00 EiB for an array"])
def test_memory_that_the_system_refuses_is_one_line(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: Any) -> None:
        raise MemoryError(*filter(None, [said]))

    monkeypatch.setattr(entry.command, "main", refused)
    assert entry.run() == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("ooc-graph: the system refuses memory")
    assert said in shown


def test_a_thread_that_the_system_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(said: str, **_: Any) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(entry.command, "main", partial(refused, "can't start new thread"))
    assert entry.run() == 2
    shown = capsys.readouterr().err
    assert shown.startswith("ooc-graph: the system refuses memory (can't start new thread)")
    assert shown.count("\n") == 1
    monkeypatch.setattr(entry.command, "main", partial(refused, "a fault of ours"))
    assert entry.run() == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert "ooc-graph: RuntimeError: a fault of ours (" in shown


def test_an_array_that_is_too_large_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry.command, "main", lambda **_: np.empty(1 << 56))
    assert entry.run() == 2
    assert "Unable to allocate" in capsys.readouterr().err
