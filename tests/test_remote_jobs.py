"""Jobs whose edges are at URLs: what is skipped, done again, refused, and tried again later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.jobs import driver
from ooc_graph.jobs.folder import read_manifest
from tests.job_runs import CHANGED, EDGES, SMALL, STEPS, Command, done_by, published, skipped
from tests.job_runs import small_job as local_job
from tests.remote_stores import BUCKET, Site, s3, s3_server, web  # noqa: F401 (fixtures)


def small_job(folder: Path, url: str, more: str = "") -> Path:
    """The small job, with its edges at a URL."""
    job = folder / "small.toml"
    job.write_text(SMALL.replace("edges.txt", url) + more)
    return job


def test_a_changed_object_is_built_again(
    s3: Any,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
) -> None:
    s3.pipe(f"s3://{BUCKET}/edges.txt", EDGES.encode())
    job, run = small_job(tmp_path, f"s3://{BUCKET}/edges.txt"), tmp_path / "run"
    first = ooc("run", job, "--out", run)
    assert done_by(first) == list(STEPS), first
    (tmp_path / "local").mkdir()
    assert ooc("run", local_job(tmp_path / "local"), "--out", tmp_path / "other").code == 0
    assert published(run) == published(tmp_path / "other")
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS)
    assert skipped(ooc("run", run / "job.toml", "--out", run)) == len(STEPS)
    s3.pipe(f"s3://{BUCKET}/edges.txt", CHANGED.encode())
    again = ooc("run", job, "--out", run)
    assert "build: edges.txt changed, done again" in again.out.splitlines()
    assert done_by(again) == list(STEPS)


def test_without_a_tag_content_tells(web: Site, tmp_path: Path, ooc: Command) -> None:  # noqa: F811
    web.files["/edges.txt"], web.tags = EDGES.encode(), False
    job, run = small_job(tmp_path, f"{web.url}/edges.txt"), tmp_path / "run"
    assert done_by(ooc("run", job, "--out", run)) == list(STEPS)
    manifest = read_manifest(run)
    assert manifest is not None
    [file] = manifest["steps"]["build"]["asked"]["files"]
    assert file.keys() == {"name", "sha256"}
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS)
    web.files["/edges.txt"] = EDGES.replace("7", "8").encode()
    again = ooc("run", job, "--out", run)
    assert "build: edges.txt changed, done again" in again.out.splitlines()


def test_nothing_is_fetched_to_plan(web: Site, tmp_path: Path, ooc: Command) -> None:  # noqa: F811
    web.files["/edges.txt"] = EDGES.encode()
    job = small_job(tmp_path, f"{web.url}/edges.txt")
    assert ooc("run", job, "--out", tmp_path / "run", "--dry-run").code == 0
    assert web.asked == []
    assert not (tmp_path / "run").exists()


def test_a_server_that_is_down_is_tried_again(
    web: Site,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
) -> None:
    web.files["/edges.txt"], web.cut_after = EDGES.encode(), 9
    job = small_job(tmp_path, f"{web.url}/edges.txt")
    said = ooc("run", job, "--out", tmp_path / "run")
    assert said.code == 75
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    assert any("edges.txt: the server cannot be read now" in str(event) for event in events)
    web.status = 503
    assert ooc("run", job, "--out", tmp_path / "run").code == 75
    web.cut_after = web.status = None
    assert ooc("run", job, "--out", tmp_path / "run").code == 0


def test_a_server_that_is_down_at_the_beginning_is_tried_again(
    web: Site,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web.files["/edges.txt"], web.status = EDGES.encode(), 503
    more = "[retries]\ntimes = 2\nwait_s = 7\n"
    job, run = small_job(tmp_path, f"{web.url}/edges.txt", more), tmp_path / "run"
    waits: list[float] = []
    monkeypatch.setattr(driver, "sleep", waits.append)
    said = ooc("run", job, "--out", run)
    assert (said.code, waits, run.exists()) == (75, [7, 7], False)
    assert said.out.count("; again in 7 s\n") == 2
    assert said.out.startswith("input: ")
    monkeypatch.setattr(driver, "sleep", lambda _: setattr(web, "status", None))
    assert done_by(ooc("run", job, "--out", run)) == list(STEPS)
    # A finished job looks at the server, too.
    web.status = 503
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS)


def test_a_store_that_is_being_uploaded_is_waited_for(
    web: Site,  # noqa: F811
    tmp_path: Path,
    ooc: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web.files["/g.zarr/manifest.json"] = b'{"uploading": "x"}'
    (tmp_path / "night.toml").write_text(
        f'[source]\nkind = "store"\npath = "{web.url}/g.zarr"\n[retries]\ntimes = 2\nwait_s = 7\n'
    )
    waits: list[float] = []
    monkeypatch.setattr(driver, "sleep", waits.append)
    said = ooc("run", tmp_path / "night.toml", "--out", tmp_path / "run")
    assert (said.code, waits) == (75, [7, 7])
    assert "is being uploaded" in said.err


def test_secrets_are_refused(tmp_path: Path, ooc: Command) -> None:
    for url in ("https://me:S3cret@host/e.csv", "https://host/e.csv?sig=S3cret"):
        said = ooc("run", small_job(tmp_path, url), "--out", tmp_path / "run")
        assert said.code == 2
        assert "https://host/e.csv: a URL in a job has no user, password or query" in said.err
        assert "S3cret" not in said.out + said.err
    said = ooc("run", small_job(tmp_path, "ftp://host/e.csv"), "--out", tmp_path / "run")
    assert said.code == 2
    assert "source.path: ftp://host/e.csv: ftp:// is not read; there are s3://, " in said.err
    assert not (tmp_path / "run").exists()


def test_urls_and_paths_do_not_mix(tmp_path: Path, ooc: Command) -> None:
    job = small_job(tmp_path, "PATH")
    job.write_text(job.read_text().replace('"PATH"', '["s3://bucket/a.txt", "b.txt"]'))
    said = ooc("run", job, "--out", tmp_path / "run")
    assert said.code == 2
    assert "source.path: give URLs alone, or paths of files alone" in said.err
