"""What the page about runs of a job is made from, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.report.graph500 import engineering


@dataclass(frozen=True)
class Change:
    """What is otherwise than in the run before: ``stage`` is empty if it is of the whole run.

    ``is_worse`` are regressions: what failed, is slower, or is another result without a reason.
    """

    stage: str
    text: str
    is_worse: bool = False


@dataclass(frozen=True)
class StageFacts:
    """A stage of one run.

    ``state`` is as `ooc_graph.jobs.status.status_of` has it, or ``skipped``: done by an earlier
    attempt. ``seconds`` are of all its units that are done, ``median_s`` of one unit: of a search
    the search alone. ``teps`` is the harmonic mean, if edges were counted. ``outputs`` are paths in
    the folder of the run.
    """

    name: str
    kind: str
    state: str
    done: int = 0
    total: int | None = None
    seconds: float | None = None
    median_s: float | None = None
    teps: float | None = None
    result: str = ""
    error: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """One run of a job: times are UTC as ISO has them; ``seconds`` are of its latest attempt.

    ``changes`` are since the run before.
    """

    folder: str
    job: str
    state: str
    stages: tuple[StageFacts, ...]
    since: str = ""
    last: str = ""
    seconds: float | None = None
    host: str = ""
    error: str = ""
    files: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def by_name(self) -> dict[str, StageFacts]:
        """Its stages by name."""
        return {stage.name: stage for stage in self.stages}

    @property
    def worse(self) -> list[Change]:
        """Its regressions."""
        return [change for change in self.changes if change.is_worse]


def speed(stage: StageFacts) -> str:
    """TEPS of a stage, or the median time of a unit; empty if neither is known."""
    if stage.teps:
        return rate(stage.teps)
    return duration(stage.median_s)


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def rate(teps: float) -> str:
    """Traversed edges per second with their unit."""
    value, prefix = engineering(teps)
    return f"{value} {prefix}TEPS"
