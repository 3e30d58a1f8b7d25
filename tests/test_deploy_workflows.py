"""Recipes for Prefect and Airflow, run by these themselves where they are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command_line import LIMIT_S, REPOSITORY, Ended
from tests.job_runs import small_job

DEPLOY = REPOSITORY / "deploy"
RUNS_JOBS = f"""#!/bin/sh
# The first time, the job has to be tried again.
if [ "$1" = run ] && [ -e later ]; then rm later; echo "ooc-graph: later" >&2; exit 75; fi
exec {sys.executable} -m ooc_graph "$@"
"""


def python(program: str, recipe: str, folder: Path) -> Ended:
    """Python in a folder where ``ooc-graph`` is a command, and the recipe can be imported."""
    small_job(folder)
    (folder / "later").touch()
    command = folder / "bin" / "ooc-graph"
    command.parent.mkdir()
    command.write_text(RUNS_JOBS)
    command.chmod(0o755)
    paths = str(DEPLOY / recipe), str(REPOSITORY), os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={
            **os.environ,
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "AIRFLOW_HOME": str(folder / "airflow"),
        },
    )
    return Ended(done.returncode, done.stdout, done.stderr)


PREFECT = """
import json, sys
import night
night.run_job = night.run_job.with_options(retry_delay_seconds=0)
found = night.night("small.toml", sys.argv[1])
try:
    night.night("none.toml", sys.argv[1])
except night.FailedError as error:
    print(json.dumps([found["state"], str(error)]))
"""


@pytest.mark.skipif(find_spec("prefect") is None, reason="needs prefect")
def test_prefect(tmp_path: Path) -> None:
    done = python(PREFECT, "prefect", tmp_path)
    assert done.code == 0, done.err
    state, error = json.loads(done.out.splitlines()[-1])
    assert state == "done"
    assert error.startswith("exit code 2: ooc-graph: none.toml: cannot be read")
    assert not (tmp_path / "later").exists()
    # Of the two, only the first is tried again.
    assert done.err.count("Retry 1/5") == 1
    assert "Retry 2/5" not in done.err


AIRFLOW = """
import json, sys
import night
said = []
for job in ("small.toml", "small.toml", "none.toml"):
    try:
        said.append(night.run_job.function(job, sys.argv[1])["state"])
    except night.AirflowException as error:
        said.append([type(error).__name__, str(error)])
dag = night.ooc_graph_night()
(task,) = dag.tasks
print(json.dumps([*said, [task.task_id, task.retries, dag.max_active_runs, dag.catchup]]))
"""


@pytest.mark.skipif(find_spec("airflow") is None, reason="needs apache-airflow 3")
def test_airflow(tmp_path: Path) -> None:
    done = python(AIRFLOW, "airflow", tmp_path)
    assert done.code == 0, done.err
    later, state, failed, dag = json.loads(done.out.splitlines()[-1])
    assert later == ["AirflowException", "exit code 75: ooc-graph: later"]
    assert state == "done"
    assert failed[0] == "AirflowFailException"
    assert failed[1].startswith("exit code 2: ooc-graph: none.toml: cannot be read")
    assert dag == ["run_job", 5, 1, False]
