"""Progress on stderr: bars on a terminal, a few plain lines elsewhere, nothing when quiet.

Standard output is never touched: it belongs to results.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TextIO

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from ooc_graph.forked import in_child
from ooc_graph.threads import is_refusal

BAR_AFTER_S = 1.0
LINE_EVERY_S = 2.0


class Progress:
    """Where the stages of a run show how far they are: on ``stream``, by default standard error.

    All methods of this class and of its stages may be called from any thread.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._display = _Display()
        if not quiet:
            has_bars = self._stream.isatty() and os.environ.get("TERM") != "dumb"
            self._display = _Terminal(self._stream) if has_bars else _Lines(self._stream)
            in_child(self._show_lines)

    def _show_lines(self) -> None:
        """In a forked child: bars are drawn by a thread of the parent."""
        self._display = _Lines(self._stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._display.close()

    def stage(self, name: str, total: float | None = None, unit: str = "") -> StageProgress:
        """Return a context manager that lasts as long as the stage.

        Its amount of work is ``total``, None if not known, and counts a ``unit`` such as "edges".
        """
        return StageProgress(self._display, name, total, unit)

    def note(self, text: str) -> None:
        """Show one line of text, above the bars if there are any."""
        self._display.note(text)


class StageProgress:
    """One stage of a :class:`Progress`; enter it where the stage begins."""

    def __init__(self, display: _Display, name: str, total: float | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done: float = 0
        self._display = display
        self._counting = threading.Lock()

    def __enter__(self) -> StageProgress:
        self.started_s = time.monotonic()
        self._display.start(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._display.stop(self, failed=kind is not None)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started_s

    def advance(self, amount: float = 1) -> None:
        """Add finished work, in the stage's unit."""
        with self._counting:
            self.done += amount
        self._display.advance(self)

    def note(self, text: str) -> None:
        """Show one line of text that belongs to this stage."""
        self._display.note(f"{self.name}: {text}")


class _Display:
    """Shows nothing; displays that show something replace what they need."""

    def start(self, stage: StageProgress) -> None: ...
    def advance(self, stage: StageProgress) -> None: ...
    def stop(self, stage: StageProgress, *, failed: bool) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class _Lines(_Display):
    """Plain lines: start, quarters (no two within ``LINE_EVERY_S``), end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._shown: dict[StageProgress, tuple[int, float]] = {}

    def start(self, stage: StageProgress) -> None:
        with self._lock:
            self._shown[stage] = (0, time.monotonic())
            self._write(f"{stage.name} ...")

    def advance(self, stage: StageProgress) -> None:
        if not stage.total:
            return
        quarter = int(4 * stage.done / stage.total)
        with self._lock:
            # A thread may report its last work after the stage has ended.
            last_quarter, last_s = self._shown.get(stage, (4, 0.0))
            now_s = time.monotonic()
            if last_quarter < quarter < 4 and now_s - last_s >= LINE_EVERY_S:
                self._shown[stage] = (quarter, now_s)
                self._write(f"{stage.name}: {25 * quarter} % after {stage.elapsed_s:.1f} s")

    def stop(self, stage: StageProgress, *, failed: bool) -> None:
        with self._lock:
            self._shown.pop(stage, None)
            self._write(_final_line(stage, failed=failed))

    def note(self, text: str) -> None:
        with self._lock:
            self._write(text)

    def _write(self, line: str) -> None:
        # A reader of stderr that has gone away is no reason to lose the run.
        with contextlib.suppress(OSError):
            self._stream.write(line + "\n")
            self._stream.flush()


class _Terminal(_Display):
    """Bars of rich, shown once a stage has lasted ``BAR_AFTER_S``."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, force_terminal=True)
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            _AmountColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=self._console,
            # Redirected, standard output would end up in this stream.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._lock = threading.RLock()
        self._tasks: dict[StageProgress, bars.TaskID] = {}
        self._timers: dict[StageProgress, threading.Timer] = {}
        self._is_live = False

    def start(self, stage: StageProgress) -> None:
        timer = threading.Timer(BAR_AFTER_S, self._show, [stage])
        timer.daemon = True
        with self._lock:
            self._timers[stage] = timer
        try:
            timer.start()
        except RuntimeError as error:
            # Work is not to end for want of a bar.
            if not is_refusal(error):
                raise

    def advance(self, stage: StageProgress) -> None:
        with self._lock:
            if (task := self._tasks.get(stage)) is not None:
                self._bars.update(task, completed=stage.done)

    def stop(self, stage: StageProgress, *, failed: bool) -> None:
        with self._lock:
            if (timer := self._timers.pop(stage, None)) is not None:
                timer.cancel()
            if (task := self._tasks.pop(stage, None)) is not None:
                self._bars.remove_task(task)
                self.note(_final_line(stage, failed=failed))
            self._rest_if_idle()

    def note(self, text: str) -> None:
        # The terminal may be gone; the work is not.
        with self._lock, contextlib.suppress(OSError):
            self._console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        with self._lock:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            self._tasks.clear()
            self._rest_if_idle()

    def _show(self, stage: StageProgress) -> None:
        with self._lock:
            if self._timers.pop(stage, None) is None:
                return
            task = self._bars.add_task(stage.name, total=stage.total, unit=stage.unit)
            # Rates are of the stage, not of the time since its bar appeared.
            self._bars.tasks[-1].start_time = self._bars.get_time() - stage.elapsed_s
            self._bars.update(task, completed=stage.done)
            self._tasks[stage] = task
            if not self._is_live:
                self._bars.start()
                self._is_live = True

    def _rest_if_idle(self) -> None:
        if self._is_live and not self._tasks:
            self._bars.stop()
            self._is_live = False


class _AmountColumn(bars.ProgressColumn):
    """Share done and rate: ``42 % · 12.3 M edges/s``."""

    def render(self, task: bars.Task) -> Text:
        elapsed_s = task.elapsed or 0.0
        parts = [f"{task.percentage:.0f} %"] if task.total else []
        if task.completed and elapsed_s > 0:
            parts.append(_rate(task.completed / elapsed_s, task.fields["unit"]))
        return Text(" · ".join(parts))


def _final_line(stage: StageProgress, *, failed: bool) -> str:
    elapsed_s = stage.elapsed_s
    if failed:
        return f"{stage.name}: failed after {elapsed_s:.1f} s"
    rate = f" ({_rate(stage.done / elapsed_s, stage.unit)})" if stage.done and elapsed_s else ""
    return f"{stage.name}: done in {elapsed_s:.1f} s{rate}"


def _rate(per_second: float, unit: str) -> str:
    for factor, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if per_second >= factor:
            return f"{per_second / factor:.1f}{prefix}{' ' if unit else ''}{unit}/s"
    return f"{per_second:.3g}{' ' if unit else ''}{unit}/s"
