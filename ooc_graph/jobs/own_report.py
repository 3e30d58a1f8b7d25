"""The page about a run that the run itself writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ooc_graph.jobs.compared import compared
from ooc_graph.jobs.run_facts import SKIPPED
from ooc_graph.jobs.status import DONE
from ooc_graph.report.runs_page import write_runs_page


def write_own_report(folder: Path, stage: str, path: Path) -> None:
    """Write the page about a run; ``stage`` is the one that does, and is left out."""
    (run,) = compared([folder])
    others = tuple(one for one in run.stages if one.name != stage)
    # If only this stage is running, the run is over by the time that anybody reads it.
    is_over = all(one.state in (DONE, SKIPPED) for one in others)
    write_runs_page(
        path, folder, [replace(run, stages=others, state=DONE if is_over else run.state)]
    )
