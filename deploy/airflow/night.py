"""Run a job each night under Airflow 3: put this file into the folder of DAGs."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

RETRYABLE = {75, 143}
"""Exit codes after which the same command may succeed."""


@task(retries=5, retry_delay=timedelta(minutes=30))
def run_job(job: str, folder: str) -> dict[str, Any]:
    """Run a job in a folder to its end; its status, as `ooc-graph status --json` has it."""
    run = f"runs/{Path(job).stem}"
    line = ["ooc-graph", "run", job, "--out", run, "--quiet"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="")  # noqa: T201 - Airflow keeps it as the task's log
    if done.returncode:
        # Of the latter, Airflow tries none again.
        kind = AirflowException if done.returncode in RETRYABLE else AirflowFailException
        last = done.stderr.strip().rpartition("\n")[2]
        raise kind(f"exit code {done.returncode}: {last}")
    line = ["ooc-graph", "status", run, "--json"]
    asked = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(asked.stdout)
    return found


@dag(
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
)
def ooc_graph_night() -> None:
    """Do what a job file says."""
    run_job("night.toml", "/srv/graphs")


ooc_graph_night()
