"""Job files, values that replace theirs, and the folders of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ooc_graph.cli.jobs import _headline, _step_row
from ooc_graph.jobs.compared import compared
from ooc_graph.jobs.driver import planned, run_job
from ooc_graph.jobs.folder import encoded, read_manifest
from ooc_graph.jobs.reading import read_job
from ooc_graph.jobs.status import status_of, statuses_in
from ooc_graph.jobs.toml_text import to_toml
from ooc_graph.types import NoProgress
from tests.fuzz.targets import TARGETS, Fuzzed, json_of, target
from tests.job_runs import small_job

MORE = """
[build]
rows = "both"
compress = true

[[stage]]
kind = "many"
kernel = "apsp"
reduce = "histogram"
bins = 4
bin_width = 0.5

[resources]
memory_limit = "2GiB"

[retries]
times = 2
wait_s = 0.5
"""
KRONECKER = """
name = "k"
[source]
kind = "kronecker"
scale = 5
[[stage]]
kind = "sssp"
name = "roads"
keys = 3
[[stage]]
kind = "diff"
of = "roads"
against = "../old"
[[stage]]
kind = "report"
[cluster]
kind = "slurm"
jobs = 2
cores = 4
memory = "8GiB"
"""


def _read_job(path: Path, data: bytes) -> None:
    """Read a job, and read again what its run would write of it."""
    path.write_bytes(data)
    job = read_job(path)
    again = path.with_name("again.toml")
    again.write_text(to_toml(job.model_dump(mode="json", exclude_unset=True)))
    assert repr(read_job(again)) == repr(job)


@target("job")
def job_file(folder: Path) -> Fuzzed:
    path = small_job(folder, MORE)
    seeds = [path.read_bytes(), KRONECKER.encode()]
    return Fuzzed(seeds, lambda data: _read_job(path, data), lines=True)


@target("job-settings")
def job_settings(folder: Path) -> Fuzzed:
    path = small_job(folder, MORE)

    def read(data: bytes) -> None:
        read_job(path, data.decode("utf-8", "replace").split("\n"))

    seeds = [b'source.format="csv"\nstage.bfs.roots=[3, 4]', b"resources.device=cpu\nname=x"]
    return Fuzzed(seeds, read, lines=True)


def _run(folder: Path) -> tuple[Path, Any]:
    """The folder of a run that was done, and its job."""
    job = read_job(small_job(folder, '\n[resources]\ndevice = "cpu"\n'))
    run_job(job, folder / "runs" / "small", NoProgress(), lambda _: None)
    return folder / "runs" / "small", job


def _status(run: Path, _: Any) -> None:
    """What `status` and `runs` show."""
    found = status_of(run)
    json.dumps(found)
    assert _headline(found)
    for step in found["steps"]:
        _step_row(step)


def _report(run: Path, _: Any) -> None:
    json.dumps([asdict(one) for one in compared([run, run])])


def _going_on(run: Path, job: Any) -> None:
    """All that a next run asks before it does anything, and what is shown of the one before."""
    _status(run, job)
    _report(run, job)
    assert len(statuses_in(run.parent)) == 1
    manifest = read_manifest(run)
    assert manifest is not None
    steps, _, _ = planned(job, run)
    for step in steps:
        entry = manifest["steps"].get(step.label)
        step.state(entry, run)
        if entry is not None:
            step.differing(entry)


def _as_it_is(data: bytes) -> bytes:
    return data


def _of_run(
    name: str,
    file: str,
    look: Callable[[Path, Any], None],
    written: Callable[[bytes], bytes] = _as_it_is,
    seed: Callable[[bytes], bytes] = _as_it_is,
) -> None:
    """A file in the folder of a run."""

    def prepare(folder: Path) -> Fuzzed:
        run, job = _run(folder)
        right = seed((run / file).read_bytes())

        def read(data: bytes) -> None:
            (run / file).write_bytes(written(data))
            look(run, job)

        return Fuzzed([right], read)

    TARGETS[name] = prepare


def _unsigned(data: bytes) -> bytes:
    found = json.loads(data)
    del found["sha256"]
    return json.dumps(found).encode()


def _signed(data: bytes) -> bytes:
    found = json_of(data)
    return encoded(found).encode() if isinstance(found, dict) else data


def _failed(data: bytes) -> bytes:
    """Events, and those of a run that failed after these."""
    begun = json.loads(data.splitlines()[0])
    failed = {"time": begun["time"], "event": "failed", "seconds": 2.5, "error": "disk full"}
    more = [begun, {**failed, "stage": "bfs"}, {**failed, "run": begun["run"]}]
    return data + "".join(f"{json.dumps(one)}\n" for one in more).encode()


_of_run("run", "run.json", _going_on)
_of_run("run-signed", "run.json", _going_on, _signed, _unsigned)
_of_run("events", "events.jsonl", _status)
_of_run("events-reported", "events.jsonl", _report, seed=_failed)
_of_run("job-of-run", "job.toml", _report)
