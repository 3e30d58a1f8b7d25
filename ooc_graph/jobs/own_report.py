"""The page about a run that the run itself writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ooc_graph.jobs.compared import compared
from ooc_graph.jobs.run_facts import SKIPPED
from ooc_graph.jobs.status import DONE
from ooc_graph.jobs.steps import Step
from ooc_graph.report.runs_page import write_runs_page


def write_own_report(folder: Path, steps: Mapping[str, Step], stage: Step, path: Path) -> None:
    """Write the page about a run, without the ``stage`` that does, and those that follow it."""
    left_out = steps.keys() - stage.asked["after"].keys()
    (run,) = compared([folder])
    others = tuple(one for one in run.stages if one.name not in left_out)
    # If only these are left, the run is over by the time that anybody reads it.
    is_over = all(one.state in (DONE, SKIPPED) for one in others)
    write_runs_page(
        path, folder, [replace(run, stages=others, state=DONE if is_over else run.state)]
    )
