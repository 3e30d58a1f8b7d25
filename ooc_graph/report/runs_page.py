"""One self-contained HTML page about runs of a job, the last one first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import Template

from ooc_graph.layout.outputs import refuse_file
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.report.figures import Drawing, drawing_style
from ooc_graph.report.page import KeyFigure, page_environment
from ooc_graph.report.run_facts import RunFacts, duration, speed
from ooc_graph.report.runs_figures import stage_over_runs, stage_times

_DAMAGED = "damaged"
_GOOD, _BAD, _PLAIN = ("done", "skipped"), ("failed", "stopped", _DAMAGED), ""
_SIGNS = {**dict.fromkeys(_GOOD, "✓"), **dict.fromkeys(_BAD, "✗"), "running": "…"}
_WORDS = {"new": "not begun"}


def write_runs_page(path: Path, folder: Path, runs: Sequence[RunFacts]) -> None:
    """Write the page, whole or not at all; the same runs give the same bytes.

    Parameters
    ----------
    folder
        That of the last run, which links are about.
    runs
        Oldest first, one at least.

    Raises
    ------
    OutputExistsError, UsageError
        Something else is there, or nothing can be written.
    """
    refuse_file(path)
    links = os.path.relpath(folder, path.absolute().parent)
    with whole_file(path) as partial:
        partial.write_text(runs_html(runs, links), encoding="utf-8")


def runs_html(runs: Sequence[RunFacts], links: str) -> str:
    """Text of the page; ``links`` is where the folder of the last run is."""
    last, shown = runs[-1], list(reversed(runs))
    with drawing_style():
        drawings = [one for one in _drawings(runs) if one]
    return runs_template("runs.html.j2").render(
        run=last,
        before=next((one for one in reversed(runs[:-1]) if one.state != _DAMAGED), None),
        runs=shown,
        names=list(dict.fromkeys(stage.name for run in shown for stage in run.stages)),
        key_figures=list(_key_figures(last)),
        sections=[("Stage times", "No stage has a time yet.", drawings)],
        speed=speed,
        link=lambda name: quote(os.path.normpath(os.path.join(links, name))),  # noqa: PTH118 - for HTML
    )


def runs_template(name: str) -> Template:
    """A template about runs, with what writes their states and times."""
    environment = page_environment()
    environment.filters.update(state=state_text, colour=_colour, took=duration, moment=moment)
    return environment.get_template(name)


def _drawings(runs: Sequence[RunFacts]) -> Iterator[Drawing | None]:
    yield stage_times(runs[-1])
    for stage in runs[-1].stages:
        yield stage_over_runs(stage.name, runs)


def _key_figures(run: RunFacts) -> Iterator[KeyFigure]:
    states = [stage.state for stage in run.stages]
    yield KeyFigure(str(states.count("done")), f"of {len(states)}", "stages run")
    yield KeyFigure(str(states.count("skipped")), "", "stages skipped, done before")
    if failed := states.count("failed"):
        yield KeyFigure(str(failed), "", "stages failed")
    yield KeyFigure(str(len(run.worse)), "", "regressions")


def state_text(state: str) -> str:
    """A state as people say it, with a sign."""
    return f"{_SIGNS.get(state, '○')} {_WORDS.get(state, state)}"


def _colour(state: str) -> str:
    return "passed" if state in _GOOD else "failed" if state in _BAD else _PLAIN


def moment(time: str) -> str:
    """A time as ISO has it, to the minute."""
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M} UTC" if time else ""
