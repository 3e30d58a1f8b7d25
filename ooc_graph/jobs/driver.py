"""Carry out a job: step after step, from where an earlier run of it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, TypeVar

from ooc_graph.errors import (
    OocGraphError,
    RetryableError,
    StoreReplacedError,
    UsageError,
)
from ooc_graph.jobs.events import FAILED, STOPPED
from ooc_graph.jobs.folder import (
    JOB,
    KEYS,
    LOCK,
    SUMMARY,
    Run,
    opened,
    read_manifest,
    refuse_other,
)
from ooc_graph.jobs.inputs import source_of
from ooc_graph.jobs.mistakes import nearest
from ooc_graph.jobs.model import Job, Retries
from ooc_graph.jobs.steps import CHANGED, DONE, Step, steps_of
from ooc_graph.jobs.summary import summary_of
from ooc_graph.jobs.tiers import tier_bytes, tier_text
from ooc_graph.jobs.toml_text import to_toml
from ooc_graph.jobs.workplace import Workplace
from ooc_graph.layout.locks import refuse_busy
from ooc_graph.runtime.signals import Terminated
from ooc_graph.types import NoProgress, Progress, StageProgress

Say = Callable[[str], object]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Chosen:
    """Steps that a run is about: one, or one and those after it; all unless given."""

    only: str | None = None
    first: str | None = None  # with all after it

    def of(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that are chosen. UsageError: there is none of the name."""
        name = self.first if self.only is None else self.only
        if name is None:
            return list(steps)
        labels = [step.label for step in steps]
        if name not in labels:
            raise UsageError(f"no stage is called {name}; {nearest(name, labels)}")
        begin = labels.index(name)
        return list(steps[begin:] if self.only is None else steps[begin : begin + 1])


ALL = Chosen()


def planned(job: Job, folder: Path, chosen: Chosen = ALL) -> tuple[list[Step], list[Step], Any]:
    """All steps of a job, those that are chosen, and the files that were looked at.

    Nothing is written. What the files of the source are, and whether what is chosen can be done, is
    found out before there is a folder.
    """
    refuse_other(folder, str(job.name))
    manifest = read_manifest(folder) or {}
    files = manifest.get("files", {})
    steps = steps_of(job, source_of(job.source, files), files)
    some = chosen.of(steps)
    _refuse_missing(manifest, folder, steps, some)
    return steps, some, files


def run_job(job: Job, folder: Path, progress: Progress, say: Say, *, chosen: Chosen = ALL) -> None:
    """Do what is not done of a job in the folder of its runs.

    ``say`` gets a line for each step. Errors are those of the functions that are called, and of
    `ooc_graph.jobs.folder.opened`.
    """
    # At once, not after large inputs are hashed and servers are asked.
    refuse_busy(folder, folder / LOCK)
    plan = partial(planned, job, folder, chosen)
    steps, some, files = _retried(job.retries, "input", plan, say)
    for step in _left_uploads(some, folder):
        _retried(job.retries, step.label, partial(_reach, step), say)
    with (
        opened(folder, str(job.name)) as run,
        Workplace(job, progress, folder / f"{KEYS}{run.lock.run_id}") as workplace,
    ):
        run.manifest |= {"files": files, "asked": {step.label: step.wanted for step in steps}}
        run.write()
        run.write_text(JOB, to_toml(job.model_dump(mode="json", exclude_unset=True)))
        run.run_begins()
        begun = perf_counter()
        try:
            for step in some:
                _step(job, run, steps, step, workplace, say)
            run.write_text(SUMMARY, summary_of(run.manifest))
        except BaseException as error:
            _note_failure(run, error, begun)
            raise
        run.event("done", run=run.lock.run_id, seconds=perf_counter() - begun)


def _left_uploads(steps: Sequence[Step], folder: Path) -> list[Step]:
    """Uploads that are not done."""
    entries = (read_manifest(folder) or {}).get("steps", {})
    uploads = (step for step in steps if step.kind == "upload")
    return [step for step in uploads if step.state(entries.get(step.label), folder) != DONE]


def _reach(step: Step) -> None:
    """Refuse an upload to a place that is not there, rather than after hours of searches."""
    from ooc_graph.remote.objects import reach  # noqa: PLC0415 - other jobs need no library

    reach(step.asked["to"])


def _refuse_missing(
    manifest: Mapping[str, Any], folder: Path, steps: Sequence[Step], some: Sequence[Step]
) -> None:
    """Refuse steps that follow from others which are neither done nor chosen."""
    left_out = [step for step in steps if step not in some]
    for before in left_out:
        follower = next(
            (step for step in some if before.label in step.asked.get("after", ())), None
        )
        entry = manifest.get("steps", {}).get(before.label)
        if follower is not None and before.state(entry, folder) != DONE:
            raise UsageError(
                f"{follower.label} follows from {before.label}, which is not done; run that first"
            )


def _step(
    job: Job, run: Run, steps: Sequence[Step], step: Step, workplace: Workplace, say: Say
) -> None:
    """Do a step unless it is done, and again after errors that may not come again."""
    entry = run.entry(step)
    state = step.state(entry, run.folder)
    if state == DONE:
        say(f"{step.label}: finished already, skipped")
        run.event("skipped", stage=step.label)
        return
    if state == CHANGED:
        assert entry is not None
        say(f"{step.label}: {', '.join(step.differing(entry))} changed, done again")
    from ooc_graph.jobs.work import Work  # noqa: PLC0415 - whoever has nothing to do waits for none

    def attempt() -> None:
        begun = perf_counter()
        try:
            _do(Work(job, run, steps, workplace), step, say)
        except BaseException as error:
            _note_failure(run, error, begun, step)
            raise

    # Fingerprints are those of the plan. If the source is another one, only another run helps.
    never = StoreReplacedError
    _retried(job.retries, step.label, attempt, say, never, workplace.close)


def _retried(
    retries: Retries,
    what: str,
    call: Callable[[], Result],
    say: Say,
    never: type[Exception] | tuple[()] = (),
    before_next: Callable[[], None] = lambda: None,
) -> Result:
    """Call, and call again after errors that may not come again, except for those of a kind."""
    for _ in range(retries.times):
        try:
            return call()
        except never:
            raise
        except RetryableError as error:
            say(f"{what}: {error}; again in {retries.wait_s:g} s")
            before_next()
            sleep(retries.wait_s)
    return call()


def _do(work: Any, step: Step, say: Say) -> None:
    """Do all units of a step that are left."""
    run, begun = work.run, perf_counter()
    units = work.units(step)
    for path in run.remove_damaged(step, units):
        say(f"{step.label}: {path} is not what was written, made again")
    left = run.begin_step(step, units, lambda unit: work.known(step, unit))
    kept = len(units) - len(left)
    say(f"{step.label}: begun" + (f", {kept} of {len(units)} done before" if kept else ""))
    for _ in range(2):
        size = work.at_once(step, len(left)) if left else 1
        with _bar(work, step, len(left), size) as bar:
            for some in (left[at : at + size] for at in range(0, len(left), size)):
                run.begin(step, some)
                since = perf_counter()
                try:
                    found = work.do(step, some)
                except BaseException:
                    with suppress(OocGraphError, OSError):
                        run.interrupted(step, some, perf_counter() - since)
                    raise
                run.done(step, found, perf_counter() - since)
                bar.advance(len(some), _tiers(run, step))
        # Once more if what was done before has gone, as with a folder whose key was damaged.
        left = run.left(step, units)
    seconds = perf_counter() - begun
    run.end_step(step, seconds)
    if tiers := _tiers(run, step):
        work.workplace.progress.note(f"{step.label}: {tiers}")
    say(f"{step.label}: done in {seconds:.1f} s")


def _bar(work: Any, step: Step, count: int, size: int) -> AbstractContextManager[StageProgress]:
    """Progress of a step by its units. A single call for all of them shows its own."""
    progress: Progress = NoProgress() if count <= size else work.workplace.progress
    return progress.stage(f"stage {step.label}", count, step.counted_as)


def _tiers(run: Run, step: Step) -> str:
    """What searches of a step took so far, by tier."""
    return tier_text(tier_bytes(run.manifest["steps"][step.label]["units"].values()))


def _note_failure(run: Run, error: BaseException, begun: float, step: Step | None = None) -> None:
    """Append what ended a run, or a step of it, unless nothing more may be written."""
    of = {"run": run.lock.run_id} if step is None else {"stage": step.label}
    said = str(error) if isinstance(error, OocGraphError) else type(error).__name__
    event = FAILED
    if isinstance(error, Terminated | KeyboardInterrupt):
        event, said = STOPPED, f"stopped by {getattr(error, 'signal_name', 'SIGINT')}"
    with suppress(OocGraphError, OSError):
        run.event(event, **of, seconds=perf_counter() - begun, error=said)
