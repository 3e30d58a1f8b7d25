"""Progress on a terminal: bars."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from typing import TextIO

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from ooc_graph.report.progress import StageProgress, _Display, _final_line, _rate
from ooc_graph.threads import is_refusal

BAR_AFTER_S = 1.0


class _Bars(_Display):
    """Bars of rich, shown once a stage has lasted ``BAR_AFTER_S``."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, force_terminal=True)
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            _AmountColumn(),
            bars.TimeElapsedColumn(),
            _LeftColumn(),
            bars.TextColumn("{task.fields[said]}", markup=False),
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
                self._bars.update(task, completed=stage.done, said=stage.said)

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
            task = self._bars.add_task(stage.name, total=stage.total, unit=stage.unit, said="")
            # Rates are of the stage, not of the time since its bar appeared.
            self._bars.tasks[-1].start_time = self._bars.get_time() - stage.elapsed_s
            self._bars.update(task, completed=stage.done, said=stage.said)
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


class _LeftColumn(bars.ProgressColumn):
    """Time left at the rate of the whole stage: ``0:01:30``.

    That of rich is at the rate of the last half minute, in which long units do not end.
    """

    def render(self, task: bars.Task) -> Text:
        if not (task.total and task.completed and task.elapsed):
            return Text("-:--:--", style="progress.remaining")
        left_s = max(0.0, task.total / task.completed - 1) * task.elapsed
        return Text(str(timedelta(seconds=round(left_s))), style="progress.remaining")
