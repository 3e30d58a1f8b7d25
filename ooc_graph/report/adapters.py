"""What `progress=` takes, as the progress that searches and builds report to."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ooc_graph.errors import UsageError
from ooc_graph.report.progress import Progress as OwnProgress
from ooc_graph.report.progress import StageProgress, _Display
from ooc_graph.report.reporter import Reporter
from ooc_graph.types import NoProgress, Progress


class Step(NamedTuple):
    """What a function given as ``progress=`` is called with, when a stage begins and moves on."""

    stage: str  # name of the stage
    done: float  # how much of it is done, in its unit; 0 when it begins
    total: float | None  # how much there is in all; None if that is not known
    unit: str  # what is counted, such as "edges"; may be empty


def reporter_of(progress: Any) -> Reporter:
    """The progress that is meant by ``progress=`` of a public function.

    None and False show nothing. True shows bars on a terminal and lines elsewhere, on standard
    error. A function is called with a `Step`. Of tqdm its class, or a partial of it, makes a bar
    for each stage; a ``rich.progress.Progress`` gets a task for each. Anything else has ``stage()``
    and ``note()``, as `ooc_graph.types.Progress` says; or UsageError.
    """
    return Reporter(_shown(progress))


def _shown(progress: Any) -> Progress:
    if progress is None or progress is False:
        return NoProgress()
    if progress is True:
        return OwnProgress()
    if hasattr(progress, "stage") and hasattr(progress, "note"):
        shown: Progress = progress
        return shown
    display: _Display
    made = progress.func if isinstance(progress, partial) else progress
    if isinstance(made, type) and hasattr(made, "update") and hasattr(made, "close"):
        display = _Tqdm(progress)
    elif hasattr(progress, "add_task") and hasattr(progress, "update"):
        display = _Rich(progress)
    elif callable(progress) and not isinstance(progress, type):
        display = _Function(progress)
    else:
        raise UsageError(
            "progress: give True, a function, the class tqdm, a rich.progress.Progress, or an "
            f"object with stage() and note(), not {progress!r}"
        )
    return OwnProgress(display=display)


class _Function(_Display):
    """Calls a function, never twice at once."""

    def __init__(self, function: Any) -> None:
        self._function, self._lock = function, threading.Lock()

    def start(self, stage: StageProgress) -> None:
        self.advance(stage)

    def advance(self, stage: StageProgress) -> None:
        with self._lock:
            try:
                self._function(Step(stage.name, stage.done, stage.total, stage.unit))
            except Exception as error:
                said = f"progress= raised {type(error).__name__}: {error}"
                raise UsageError(said) from error


class _OfStages(_Display):
    """Something for each stage while it lasts, used by one thread at a time."""

    def __init__(self, given: Any) -> None:
        self._given, self._lock = given, threading.Lock()
        self._shown: dict[StageProgress, Any] = {}

    def start(self, stage: StageProgress) -> None:
        with self._lock:
            self._shown[stage] = self._begin(stage)

    def advance(self, stage: StageProgress) -> None:
        with self._lock:
            # A thread may report its last work after the stage has ended.
            if stage in self._shown:
                self._move(self._shown[stage], stage)

    def stop(self, stage: StageProgress, *, failed: bool) -> None:  # noqa: ARG002
        with self._lock:
            self._end(self._shown.pop(stage))

    def _begin(self, stage: StageProgress) -> Any:
        raise NotImplementedError

    def _move(self, shown: Any, stage: StageProgress) -> None:
        raise NotImplementedError

    def _end(self, shown: Any) -> None:
        raise NotImplementedError


class _Tqdm(_OfStages):
    """A bar of tqdm for each stage."""

    def _begin(self, stage: StageProgress) -> Any:
        unit = f" {stage.unit}" if stage.unit else "it"
        return self._given(total=stage.total, desc=stage.name, unit=unit, unit_scale=True)

    def _move(self, shown: Any, stage: StageProgress) -> None:
        shown.update(stage.done - shown.n)

    def _end(self, shown: Any) -> None:
        shown.close()


class _Rich(_OfStages):
    """A task of rich's progress for each stage; who made the progress starts and stops it."""

    def _begin(self, stage: StageProgress) -> Any:
        return self._given.add_task(stage.name, total=stage.total)

    def _move(self, shown: Any, stage: StageProgress) -> None:
        self._given.update(shown, completed=stage.done)

    def _end(self, shown: Any) -> None:
        # Whoever made it may have removed the task.
        with suppress(KeyError):
            self._given.stop_task(shown)
