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

from ooc_graph.forked import in_child

LINE_EVERY_S = 2.0


class Progress:
    """Where the stages of a run show how far they are: on ``stream``, by default standard error.

    A ``display`` shows them instead of bars and lines.

    All methods of this class and of its stages may be called from any thread.
    """

    def __init__(
        self, quiet: bool = False, stream: TextIO | None = None, display: _Display | None = None
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._display = display or _Display()
        if not quiet and display is None:
            has_bars = self._stream.isatty() and os.environ.get("TERM") != "dumb"
            self._display = _bars(self._stream) if has_bars else _Lines(self._stream)
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
        self.said = ""
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

    def advance(self, amount: float = 1, said: str = "") -> None:
        """Add finished work, in the stage's unit; a bar shows what is said from now on."""
        with self._counting:
            self.done += amount
            self.said = said
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


def _bars(stream: TextIO) -> _Display:
    """Bars, which rich draws; it takes long to import."""
    from ooc_graph.report.bars import _Bars  # noqa: PLC0415

    return _Bars(stream)


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
