"""Run folders with files that are damaged: that is noticed, and nothing damaged is read as data."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ooc_graph.jobs.folder import encoded, read_manifest
from tests.command_line import listing
from tests.job_runs import CHANGED, Command, done_by, published, small_job

SEED = int(os.environ.get("OOC_GRAPH_SEED", "23"))
ROUNDS = [60, pytest.param(1000, marks=pytest.mark.slow)]
# Runs read none of them: they say what was asked, and how long it took.
NEVER_READ = {"job.toml", "summary.json", "events.jsonl", "graph.run.json"}
Damage: TypeAlias = Callable[[Path, Any, random.Random], None]


def flip(path: Path, _: Any, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def shorten(path: Path, _: Any, draw: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))])


def remove(path: Path, *_: Any) -> None:
    path.unlink()


def swap(path: Path, others: Any, draw: random.Random) -> None:
    """With the content of another file of the run."""
    path.write_bytes(draw.choice(others).read_bytes())


def bring_back(path: Path, others: Any, _: random.Random) -> None:
    """With what stood there when the input was another."""
    run = next(folder for folder in path.parents if folder.name == "run")
    old = run.with_name("old") / path.relative_to(run)
    if old.exists():
        # As tar and rsync do. What is written into the file changes answers that share it, too.
        path.unlink()
        shutil.copyfile(old, path)


def bring_back_all(path: Path, others: Any, draw: random.Random) -> None:
    """The whole store, which is not damaged then."""
    for file in files_of(path.parent):
        bring_back(file, others, draw)


DAMAGES: list[Damage] = [flip, shorten, remove, swap, bring_back]


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def store_of(path: Path) -> Path | None:
    """The store whose content a file is; none of a manifest, by which runs know stores."""
    store = next((folder for folder in path.parents if folder.suffix == ".zarr"), None)
    return None if store is None or path == store / "manifest.json" else store


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, remove) for name in ("graph", "bfs/30", "components")),
        ("bfs/30", lambda path, *_: path.write_bytes(b"{")),
        *((name, bring_back) for name in ("bfs/10", "components")),
        ("bfs/30", bring_back_all),
    ],
)
def test_answers_with_damaged_manifests_are_made_again(
    ooc: Command, tmp_path: Path, name: str, damage: Damage
) -> None:
    job, run = small_job(tmp_path, edges=CHANGED), tmp_path / "run"
    if damage in (bring_back, bring_back_all):
        assert ooc("run", job, "--out", tmp_path / "old").code == 0
    small_job(tmp_path)
    assert ooc("run", job, "--out", run).code == 0
    right, stage = published(run), {"graph": "build"}.get(name, name.partition("/")[0])
    damage(run / f"{name}.zarr" / "manifest.json", [], random.Random())
    if stage == "bfs":
        # No stage reads it.
        refused = ooc("run", job, "--out", run, "--only", "validate")
        assert refused.code == 2
        assert "validate follows from bfs, which is not done" in refused.err
    done = ooc("run", job, "--out", run)
    assert done.code == 0, done
    assert f"{stage}: {name}.zarr is not what was written, made again\n" in done.out
    assert done_by(done) == [stage]
    assert published(run) == right


def test_a_whole_store_of_somebody_is_not_removed(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    shutil.rmtree(run / "components.zarr")
    shutil.copytree(run / "graph.zarr", run / "components.zarr")
    left = files_of(run / "components.zarr")
    refused = ooc("run", job, "--out", run)
    assert refused.code == 2
    assert "holds a graph" in refused.err
    assert files_of(run / "components.zarr") == left


def test_an_answer_that_a_killed_run_had_finished_is_kept(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    manifest = read_manifest(run)
    assert manifest is not None
    entry = manifest["steps"]["bfs"]
    entry["units"]["30"] |= {"sha256": "0" * 64, "stamp": [0, 0, 0]}
    entry["begun"], entry["done"] = {"30": "0" * 64}, False
    (run / "run.json").write_text(encoded(manifest))
    made = (run / "bfs" / "30.zarr" / "manifest.json").stat().st_mtime_ns
    done = ooc("run", job, "--out", run)
    assert done.code == 0, done
    assert "bfs: begun, 2 of 2 done before" in done.out
    assert (run / "bfs" / "30.zarr" / "manifest.json").stat().st_mtime_ns == made


def test_a_run_without_its_manifest_is_named_and_other_folders_are_not(
    ooc: Command, tmp_path: Path
) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    (run / "run.json").unlink()
    lost = ooc("run", job, "--out", run)
    assert (lost.code, lost.err.count(f"{run / 'run.json'}: is missing; restore it")) == (1, 1)
    job.rename(tmp_path / "job.toml")
    shutil.rmtree(run)
    refused = ooc("run", tmp_path / "job.toml", "--out", tmp_path)
    assert refused.code == 2
    assert "and no run of a job; give another folder" in refused.err


def test_what_a_failing_disk_left_is_removed_and_other_files_are_not(
    ooc: Command, tmp_path: Path
) -> None:
    job, run, elsewhere = small_job(tmp_path), tmp_path / "run", tmp_path / "elsewhere"
    assert ooc("run", job, "--out", run).code == 0
    (elsewhere / "2.zarr.partial-removed-6d92").mkdir(parents=True)
    (run / "linked").symlink_to(elsewhere)
    # A lock of somebody else, one that cannot be opened, and a file that a stage did not make.
    (run / "mine").mkdir()
    (run / "mine.lock").write_text("[]")
    (run / "linked.lock").symlink_to(run / "mine.lock")
    (run / "mine" / "march.partial-2.txt").touch()
    right = [*listing(tmp_path), "run/components.zarr.lock"]
    for left in ("graph.zarr.partial-removed-6d92", "bfs/30.zarr.partial-removed-cc00"):
        (run / left / "out").mkdir(parents=True)
        (run / left / "out" / "0").touch()
    for left in (
        "graph.zarr.lock",
        "bfs.lock",
        "bfs/10.zarr.lock",
        "run.json.partial-0e52.json",
    ):
        (run / left).touch()
    with (run / "components.zarr.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert done_by(ooc("run", job, "--out", run)) == []
    assert sorted(listing(tmp_path)) == sorted(right)


def test_what_a_link_leads_to_is_not_removed(ooc: Command, tmp_path: Path) -> None:
    job, run, store = small_job(tmp_path), tmp_path / "run", tmp_path / "elsewhere"
    assert ooc("run", job, "--out", run).code == 0
    (run / "components.zarr").rename(store)
    (run / "components.zarr").symlink_to(store)
    assert done_by(ooc("run", job, "--out", run)) == []
    (store / "manifest.json").unlink()
    left = files_of(store)
    refused = ooc("run", job, "--out", run)
    assert refused.code == 2
    assert f"{run / 'components.zarr'}: is not a store of this package" in refused.err
    assert files_of(store) == left


def test_what_is_not_made_again_is_not_removed(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    (run / "bfs" / "30.zarr" / "manifest.json").write_bytes(b"{")
    left = files_of(run / "bfs" / "30.zarr")
    assert ooc("run", job, "--out", run, "--set", "stage.bfs.roots=[10]").code == 0
    assert files_of(run / "bfs" / "30.zarr") == left
    # Somewhere else, by a link above it.
    (run / "bfs").rename(tmp_path / "elsewhere")
    (run / "bfs").symlink_to(tmp_path / "elsewhere")
    assert ooc("run", job, "--out", run).code == 1
    assert len(files_of(tmp_path / "elsewhere" / "30.zarr")) == len(left)


def test_a_folder_where_a_file_goes_is_not_removed(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    file = run / "export" / "30.csv"
    file.unlink()
    file.mkdir()
    (file / "mine").touch()
    assert ooc("run", job, "--out", run).code == 2
    assert [path.name for path in file.iterdir()] == ["mine"]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_files_are_noticed(
    rounds: int, ooc: Command, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    job, run, whole = small_job(tmp_path, edges=CHANGED), tmp_path / "run", tmp_path / "whole"
    assert ooc("run", job, "--out", tmp_path / "old").code == 0
    small_job(tmp_path)
    assert ooc("run", job, "--out", whole).code == 0
    right, draw = published(whole), random.Random(SEED)
    more = ("--set", "stage.bfs.roots=[10, 30, 20]")
    assert ooc("run", job, "--out", tmp_path / "more", *more).code == 0
    with_more = published(tmp_path / "more")
    for number in range(rounds):
        shutil.rmtree(run, ignore_errors=True)
        # Not by `copy2`: what is copied has other times, so that all of it is looked at once.
        shutil.copytree(whole, run, copy_function=shutil.copyfile)
        files = files_of(run)
        path, damage = draw.choice(files), draw.choice(DAMAGES)
        before = path.read_bytes()
        damage(path, files, draw)
        if path.exists() and path.read_bytes() == before:
            continue
        name, store = path.relative_to(run).as_posix(), store_of(path)
        where = f"seed {SEED}, {number}: {damage.__name__} {name}"
        if store is not None:
            # A finished job reads no chunk; who does notices.
            told = ooc("verify", store)
            assert told.code == 1, f"{where}: {told}"
            assert str(store) in told.err, f"{where}: {told}"
        if store is not None or path.name == "key":
            done = ooc("run", job, "--out", run, *more)
            if done.code:
                assert done.code == 1, f"{where}: {done}"
                assert str(store or path) in done.err, f"{where}: {done}"
            else:
                others = {one: sha256 for one, sha256 in with_more.items() if one != name}
                assert published(run).items() >= others.items(), f"{where}: {done}"
            continue
        done = ooc("run", job, "--out", run)
        if name == "run.json" and damage is not bring_back:
            what = "missing" if damage is remove else "damaged"
            assert done.code == 1, f"{where}: {done}"
            assert f"{path}: is {what}" in done.err, f"{where}: {done}"
            continue
        if path.name == "manifest.json":
            store = path.parent.relative_to(run)
            assert f": {store} is not what was written, made again\n" in done.out, (
                f"{where}: {done}"
            )
        assert done.code == 0, f"{where}: {done}"
        assert published(run) == right, f"{where}: {done}"
        assert name in NEVER_READ or "done in" in done.out, f"{where}: {done}"
