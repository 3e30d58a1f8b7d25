"""Progress: plain lines, quiet, a terminal, and threads."""

from __future__ import annotations

import io
import re
import sys
import threading
import time

import pytest

from ooc_graph.report import bars
from ooc_graph.report import progress as module
from ooc_graph.report.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)


class Clock:
    """Stands in for the clock, which runs when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def lines_of(stream: io.StringIO) -> list[str]:
    return [re.sub(r"\d+(\.\d+)?(?= s\b)", "T", line) for line in stream.getvalue().splitlines()]


def test_plain_lines(fast):
    stream = io.StringIO()
    with Progress(stream=stream) as progress, progress.stage("build", 100) as stage:
        for _ in range(100):
            stage.advance()
        stage.note("3 shards")
    found = lines_of(stream)
    assert found[:5] == [
        "build ...",
        "build: 25 % after T s",
        "build: 50 % after T s",
        "build: 75 % after T s",
        "build: 3 shards",
    ]
    assert re.fullmatch(r"build: done in T s \(.*/s\)", found[5])
    assert len(found) == 6


def test_quarters_do_not_come_thick_and_fast(clock):
    stream = io.StringIO()
    with Progress(stream=stream) as progress, progress.stage("load", 4) as stage:
        for _ in range(4):
            clock.now_s += module.LINE_EVERY_S / 5
            stage.advance()
    assert len(lines_of(stream)) == 2
    with Progress(stream=stream) as progress, progress.stage("load", 4) as stage:
        for _ in range(4):
            clock.now_s += module.LINE_EVERY_S
            stage.advance()
    assert len(lines_of(stream)) == 2 + 5


def test_work_reported_after_the_end_is_ignored(fast):
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        with progress.stage("load", 4) as stage:
            pass
        stage.advance(2)
    assert [line.split(":")[0] for line in lines_of(stream)] == ["load ...", "load"]


def test_rate_in_its_unit(clock):
    stream = io.StringIO()
    with Progress(stream=stream) as progress, progress.stage("generate", unit="edges") as stage:
        stage.advance(25_000_000)
        clock.now_s += 10
    assert stream.getvalue().splitlines()[1] == "generate: done in 10.0 s (2.5 M edges/s)"


def test_failure_is_said():
    stream = io.StringIO()
    with pytest.raises(KeyError), Progress(stream=stream) as progress, progress.stage("sort"):
        raise KeyError
    assert lines_of(stream) == ["sort ...", "sort: failed after T s"]


def test_quiet_says_nothing_and_stdout_is_never_written(capsys):
    for quiet in (True, False):
        with Progress(quiet=quiet) as progress, progress.stage("s", 2) as stage:
            stage.advance(2)
            stage.note("note")
            progress.note("other")
        out, err = capsys.readouterr()
        assert out == ""
        assert bool(err) is not quiet


def test_terminal_shows_no_bar_for_a_short_stage(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    # However long the machine takes.
    monkeypatch.setattr(bars, "BAR_AFTER_S", 60.0)
    stream = Terminal()
    with Progress(stream=stream) as progress:
        with progress.stage("short", 5) as stage:
            stage.advance(5)
        progress.note("[a note]")
    assert stream.getvalue() == "[a note]\n"


def test_a_note_to_a_terminal_that_is_gone_ends_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress(stream=stream) as progress:
        progress.note("before")
        with monkeypatch.context() as patch:

            def gone(_):
                raise OSError(5, "Input/output error")

            patch.setattr(stream, "write", gone)
            progress.note("lost")
    assert stream.getvalue().startswith("before")


def test_terminal_shows_a_bar_after_a_while(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(bars, "BAR_AFTER_S", 0.05)
    stream = Terminal()
    with Progress(stream=stream) as progress, progress.stage("long", 10, "edges") as stage:
        stage.advance(3)
        deadline_s = time.monotonic() + 120
        while "30 %" not in stream.getvalue() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        sys.stdout.write("result\n")
        stage.advance(7)
    text = stream.getvalue()
    assert "long" in text
    assert "30 %" in text
    assert "edges/s" in text
    assert "long: done in" in text
    assert capsys.readouterr().out == "result\n"
    assert "result" not in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") > 0  # the cursor is back


def test_time_left_is_known_after_one_long_unit(monkeypatch):
    now_s = 0.0
    task = bars.bars.Task(
        bars.bars.TaskID(0), "bfs", 4, 1, _get_time=lambda: now_s, fields={"unit": "answers"}
    )
    column = bars._LeftColumn()
    assert column.render(task).plain == "-:--:--"
    task.start_time, now_s = 0.0, 600.0
    assert column.render(task).plain == "0:30:00"
    task.completed = 4
    assert column.render(task).plain == "0:00:00"


def test_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(stream=stream) as progress, progress.stage("s"):
        pass
    assert lines_of(stream) == ["s ...", "s: done in T s"]


def test_threads(fast):
    stream = io.StringIO()
    with Progress(stream=stream) as progress, progress.stage("work", 8000) as stage:
        threads = [
            threading.Thread(target=lambda: [stage.advance() for _ in range(1000)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stage.done == 8000
    assert len(lines_of(stream)) == 5


def test_a_stream_that_is_gone_does_not_end_the_run():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with Progress(stream=Gone()) as progress, progress.stage("s", 1) as stage:
        stage.advance()
    assert stage.done == 1
