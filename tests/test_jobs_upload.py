"""The stage upload: results in an object store, what is sent again, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import StoreReplacedError
from ooc_graph.jobs.folder import read_manifest
from ooc_graph.layout.names import MANIFEST
from ooc_graph.remote import stores
from tests.command_line import LIMIT_S, listing, running, script
from tests.dying import command_of, command_until
from tests.job_runs import CHANGED, STEPS, Command, done_by, events, skipped, small_job
from tests.own_process import in_own_process
from tests.remote_stores import (  # noqa: F401 (fixtures)
    BUCKET,
    CUT,
    TO,
    Proxy,
    proxy,
    s3,
    s3_server,
)
from tests.unit.test_report_page import Page

UPLOADED = ("build", "bfs", "components", "export", "report")
UPLOADS = tuple(f"{name}-up" for name in UPLOADED)
FAULTS = {503: 75, CUT: 75, 403: 2}
"""Exit codes, by what a server answers."""
REPORT = '[[stage]]\nkind = "report"\n'


def upload_of(name: str, to: str = TO) -> str:
    return f'[[stage]]\nkind = "upload"\nname = "{name}-up"\nof = "{name}"\nto = "{to}"\n'


ALL = REPORT + "".join(map(upload_of, UPLOADED))


def uploaded(s3: Any) -> dict[str, bytes]:  # noqa: F811
    """Objects by path below the target."""
    found = s3.find(TO, refresh=True)
    return {name.removeprefix(f"{BUCKET}/night/"): s3.cat_file(name) for name in found}


def results(run: Path) -> dict[str, bytes]:
    """Files of a run that are uploaded, by path."""
    found = [path for path in run.rglob("*") if path.is_file()]
    names = {path.relative_to(run).as_posix(): path for path in found}
    is_result = (".zarr/", ".csv", ".html")
    return {n: p.read_bytes() for n, p in names.items() if any(one in n for one in is_result)}


def test_results_are_those_of_the_run(
    s3: Any,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, run = small_job(tmp_path, ALL), tmp_path / "run"
    plan = ooc("run", job, "--out", run, "--dry-run")
    assert plan.code == 0, plan
    early = ooc("run", job, "--out", run, "--only", "bfs-up")
    assert early.code == 2
    assert "bfs-up follows from bfs, which is not done; run that first" in early.err
    assert uploaded(s3) == {}
    first = ooc("run", job, "--out", run, "--quiet")
    assert done_by(first) == [*STEPS, "report", *UPLOADS], first
    assert uploaded(s3) == results(run)
    assert "graph.zarr/manifest.json" in uploaded(s3)
    # The page is about all that comes before it.
    page = Page(uploaded(s3)["report.html"].decode())
    assert "✓ done" in page.texts["p"]
    assert page.texts["th"][-len(STEPS) :] == list(STEPS)
    graph, answer = og.open(f"{TO}/graph.zarr"), stores.local_path(f"{TO}/bfs/10.zarr")
    assert listing(Path(graph.path)) == listing(run / "graph.zarr")
    found, right = (og.Result.open(path) for path in (answer, run / "bfs" / "10.zarr"))
    np.testing.assert_array_equal(found.parent, right.parent)
    og.validate(graph, found, client=False)
    # No server is asked if there is nothing to do.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert skipped(ooc("run", job, "--out", run)) == len(done_by(first))
    status = json.loads(ooc("status", run, "--json").out)
    assert {step["state"] for step in status["steps"]} == {"done"}
    assert ooc("run", run / "job.toml", "--out", run, "--dry-run").code == 0
    said = json.loads(ooc("report", run, "--json").out)
    assert f"to {TO}" in [stage["result"] for stage in said[0]["stages"]]


def test_what_changes_is_uploaded_again(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
) -> None:
    job, run = small_job(tmp_path, ALL), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    proxy.sent()
    # One more root: its answer alone.
    more = ("--set", "stage.bfs.roots=[10,30,20]")
    assert ooc("run", job, "--out", run, *more).code == 0
    sent = [name for name in proxy.sent() if not name.endswith(".html")]
    assert sent
    assert all(name.startswith(("night/bfs/20.zarr/", "night/export/20.csv")) for name in sent)
    assert uploaded(s3) == results(run)
    # An answer that is made again is the same, and nothing of it is sent; a file that is not is.
    shutil.rmtree(run / "bfs" / "30.zarr")
    (run / "export" / "30.csv").write_text("broken")
    again = ooc("run", job, "--out", run, *more)
    assert again.code == 0
    assert proxy.sent() == []
    assert uploaded(s3) == results(run)
    # What somebody removes there is not noticed, unless the stage is a new one.
    s3.rm_file(f"{TO}/bfs/20.zarr/zarr.json")
    assert done_by(ooc("run", job, "--out", run, *more)) == []
    assert done_by(ooc("run", job, "--out", run, *more, "--set", "stage.bfs-up.name=again")) == [
        "again"
    ]
    assert proxy.sent() == ["night/bfs/20.zarr/zarr.json"]
    # Other edges: older answers are replaced, and those that are no longer asked for stay.
    small_job(tmp_path, ALL, edges=CHANGED)
    other = ooc("run", job, "--out", run)
    assert done_by(other) == [*STEPS, "report", *UPLOADS]
    assert "bfs-up: bfs, roots changed, done again" in other.out.splitlines()
    old = {name for name in uploaded(s3) if "/20." in name}
    assert {name: text for name, text in uploaded(s3).items() if name not in old} == {
        name: text for name, text in results(run).items() if "/20." not in name
    }
    # Another target gets all of it.
    moved = f"s3://{BUCKET}/night/elsewhere"
    assert ooc("run", job, "--out", run, "--set", f"stage.bfs-up.to={moved}").code == 0
    assert s3.exists(f"{moved}/bfs/10.zarr/{MANIFEST}")


def test_faults_and_retries(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
    job = small_job(tmp_path, upload_of("bfs") + upload_of("export"))
    run = tmp_path / "run"
    for status, code in FAULTS.items():
        proxy.fault = lambda method, path: status if method == "PUT" else None  # noqa: B023
        said = ooc("run", job, "--out", run, "--quiet")
        assert said.code == code, said
        assert said.err.count("\n") == 1, said
        line = said.err.rstrip("\n")
        assert line.startswith(f"ooc-graph: {TO}/bfs/")
        assert "secret-of-tests" not in said.out + said.err + json.dumps(events(run))
        assert events(run)[-2]["stage"] == "bfs-up"
    left = [3]

    def fault(method: str, path: str) -> int | None:
        left[0] -= method == "PUT"
        return 503 if method == "PUT" and left[0] == 0 else None

    proxy.fault = fault
    again = ("--set", "retries.times=1", "--set", "retries.wait_s=0")
    done = ooc("run", job, "--out", run, "--quiet", *again)
    assert done.code == 0, done
    assert "status 503); try again; again in 0 s" in done.out
    assert uploaded(s3).keys() == {
        name for name in results(run) if name.startswith(("bfs/", "export/"))
    }


def test_a_target_that_is_not_there_is_refused_first(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
    job, run = small_job(tmp_path, upload_of("bfs")), tmp_path / "run"
    missing = ooc("run", job, "--out", run, "--set", "stage.bfs-up.to=s3://no-such-bucket/x")
    assert missing.code == 2
    assert "no such file, folder or bucket" in missing.err
    for status, code in FAULTS.items():
        proxy.fault = lambda method, path: status  # noqa: B023
        said = ooc("run", job, "--out", run)
        assert (said.code, said.err.count("\n")) == (code, 1), said
        assert said.err.startswith(f"ooc-graph: {TO}: "), said
    assert not run.exists()
    asked = len(proxy.asked)
    assert ooc("run", job, "--out", run, "--only", "bfs").code == 2  # follows from the build
    assert len(proxy.asked) == asked


def test_stopped_while_the_server_is_silent(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    tmp_path: Path,
) -> None:
    job, run, silent = small_job(tmp_path, upload_of("bfs")), tmp_path / "run", Event()
    proxy.fault = lambda method, path: silent.wait() and None if path.endswith("/c/0") else None
    try:
        with running(["-m", "ooc_graph", "run", job, "--out", run, "--quiet"]) as process:
            deadline = monotonic() + LIMIT_S
            while not any(path.endswith("/c/0") for _, path in proxy.asked):
                assert process.poll() is None, process.communicate()
                assert monotonic() < deadline
                sleep(0.05)
            process.send_signal(signal.SIGTERM)
            # The library's own patience is longer than that of whoever stops it.
            _, err = process.communicate(timeout=30)
    finally:
        silent.set()
    assert process.returncode == 143
    assert err == "ooc-graph: stopped by SIGTERM\n"
    with pytest.raises(StoreReplacedError):
        stores.local_path(f"{TO}/bfs/10.zarr")
    proxy.fault = lambda method, path: None
    assert script("-m", "ooc_graph", "run", job, "--out", run, "--quiet").code == 0
    assert uploaded(s3) == {
        name: text for name, text in results(run).items() if name.startswith("bfs/")
    }


def killed_while_uploading(environment: dict[str, str], folder: Path, every: int) -> int:
    """Kill a run before steps of its last stages; after how many it ended undisturbed."""
    os.environ.update(environment)
    import s3fs

    job, run, kept = small_job(folder), folder / "run", folder / "kept"
    words = ["run", str(job), "--out", str(run), "--quiet"]
    assert command_of(words) == 0
    small_job(folder, upload_of("bfs"))
    shutil.copytree(run, kept)
    step = 1
    while True:
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        files = s3fs.S3FileSystem(skip_instance_cache=True)
        if files.exists(TO):
            files.rm(TO, recursive=True)
        code = command_until(step, run, words)
        assert command_until(None, run, words) == 0
        manifest = read_manifest(run)
        assert manifest is not None
        assert manifest["steps"]["bfs-up"]["units"].keys() == {"10", "30"}
        files = s3fs.S3FileSystem(skip_instance_cache=True)
        there = {name.removeprefix(f"{BUCKET}/night/"): files.cat(name) for name in files.find(TO)}
        assert there == {name: c for name, c in results(run).items() if name.startswith("bfs/")}
        if code == 0:
            return step
        assert code == -signal.SIGKILL
        step += every


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_before_each_step(s3: Any, tmp_path: Path, every: int) -> None:  # noqa: F811
    environment = {name: os.environ[name] for name in os.environ if name.startswith("AWS_")}
    # It begins, notes two stores, and ends.
    assert in_own_process(killed_while_uploading, environment, tmp_path, every) > 8
