"""Run a job each night under Prefect: `python night.py` serves the schedule."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task

RETRYABLE = {75, 143}
"""Exit codes after which the same command may succeed."""


class TryAgainError(Exception):
    """The job ended with an exit code after which it may be tried again."""


class FailedError(Exception):
    """Somebody has to look; trying again does not help."""


def _may_end_well(_task: Any, _run: Any, state: Any) -> bool:
    return isinstance(state.result(raise_on_failure=False), TryAgainError)


@task(retries=5, retry_delay_seconds=1800, retry_condition_fn=_may_end_well)
def run_job(job: str, folder: str) -> dict[str, Any]:
    """Run a job in a folder to its end; its status, as `ooc-graph status --json` has it."""
    run = f"runs/{Path(job).stem}"
    line = ["ooc-graph", "run", job, "--out", run, "--quiet"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    get_run_logger().info("%s%s", done.stdout, done.stderr)
    if done.returncode:
        kind = TryAgainError if done.returncode in RETRYABLE else FailedError
        last = done.stderr.strip().rpartition("\n")[2]
        raise kind(f"exit code {done.returncode}: {last}")
    line = ["ooc-graph", "status", run, "--json"]
    asked = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(asked.stdout)
    return found


@flow
def night(job: str = "night.toml", folder: str = "/srv/graphs") -> dict[str, Any]:
    """Do what a job file says."""
    return run_job(job, folder)


if __name__ == "__main__":
    night.serve(name="night", cron="15 2 * * *")
