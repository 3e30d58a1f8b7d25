"""Records: what is added, what is refused, and several writers at once."""

from __future__ import annotations

import datetime
import fcntl
import json
import multiprocessing
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from ooc_graph.errors import DiskFullError, InputError, OutputBusyError
from ooc_graph.layout import whole_file
from ooc_graph.report import records
from ooc_graph.report.records import append_record, read_records

WRITERS, RECORDS = 4, 25


def test_record_and_its_circumstances(tmp_path):
    path = tmp_path / "new" / "records.jsonl"
    written = append_record(path, {"stage": "build", "elapsed_s": 1.5})
    (found,) = read_records(path)
    assert found == written
    assert (found["stage"], found["elapsed_s"], found["schema_version"]) == ("build", 1.5, 1)
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(found["date"])
    assert abs(age.total_seconds()) < 60
    assert found["host"]["cpu_count"] == os.cpu_count()
    assert found["host"]["ram_bytes"] > 2**28
    assert found["host"]["cpu_model"]
    assert set(found["packages"]) == {"ooc_graph", "python", "numpy", "numba", "dask", "zarr"}
    assert found["packages"]["numpy"] == np.__version__


def test_numpy_values_and_paths(tmp_path):
    record = {
        "count": np.int64(2**62),
        "share": np.float32(0.5),
        "ok": np.bool_(True),
        "levels": np.arange(3),
        "file": Path("graph.zarr"),
        "name": "Größe",
    }
    append_record(tmp_path / "r.jsonl", record)
    (found,) = read_records(tmp_path / "r.jsonl")
    assert {name: found[name] for name in record} == {
        "count": 2**62,
        "share": 0.5,
        "ok": True,
        "levels": [0, 1, 2],
        "file": "graph.zarr",
        "name": "Größe",
    }


@pytest.mark.parametrize("bad", [float("nan"), np.float64("inf"), np.float32("nan")])
def test_refuses_what_is_not_finite(tmp_path, bad):
    with pytest.raises(ValueError, match="JSON"):
        append_record(tmp_path / "r.jsonl", {"teps": bad})
    assert not (tmp_path / "r.jsonl").exists()


def test_refuses_other_objects_and_its_own_keys(tmp_path):
    with pytest.raises(TypeError, match="set"):
        append_record(tmp_path / "r.jsonl", {"roots": {1, 2}})
    with pytest.raises(ValueError, match="host"):
        append_record(tmp_path / "r.jsonl", {"host": "mine"})
    assert not (tmp_path / "r.jsonl").exists()


def _write_many(path: str, writer: int) -> None:
    for number in range(RECORDS):
        append_record(path, {"writer": writer, "number": number, "padding": "x" * 5000})


def test_several_processes_append(tmp_path):
    path = str(tmp_path / "records.jsonl")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(240)
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    found = [(record["writer"], record["number"]) for record in read_records(path)]
    assert sorted(found) == [(w, n) for w in range(WRITERS) for n in range(RECORDS)]
    for writer in range(WRITERS):
        assert [n for w, n in found if w == writer] == list(range(RECORDS))


def test_a_file_that_stays_locked_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_file, "LONGEST_LOCK_S", 0.2)
    path = tmp_path / "r.jsonl"
    append_record(path, {"n": 1})
    before = path.read_bytes()
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OutputBusyError, match="locked"):
            append_record(path, {"n": 2})
    assert path.read_bytes() == before
    append_record(path, {"n": 2})


def test_a_line_cut_short_is_named_and_spoils_nothing_after_it(tmp_path):
    path = tmp_path / "r.jsonl"
    append_record(path, {"n": 1})
    with path.open("a") as lines:
        lines.write('{"n": 2, "el')
    append_record(path, {"n": 3})
    with pytest.raises(InputError, match=r"r\.jsonl:2: not JSON"):
        list(read_records(path))
    assert json.loads(path.read_text().splitlines()[2])["n"] == 3


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    append_record(path, {"n": 1})
    before, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:20]))
    with pytest.raises(DiskFullError, match="the disk is full; the record was not added"):
        append_record(path, {"n": 2})
    assert path.read_bytes() == before
    monkeypatch.undo()
    append_record(path, {"n": 3})
    assert [record["n"] for record in read_records(path)] == [1, 3]


def test_waits_for_another_process_that_appends(tmp_path):
    path, done = tmp_path / "r.jsonl", threading.Event()
    writer = threading.Thread(target=lambda: (append_record(path, {"n": 2}), done.set()))
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer.start()
        assert not done.wait(0.3)
    writer.join(120)
    assert [record["n"] for record in read_records(path)] == [2]


def test_a_line_that_is_no_object(tmp_path):
    (tmp_path / "r.jsonl").write_text("\n[1]\n")
    with pytest.raises(InputError, match=r"r\.jsonl:2: not a JSON object"):
        list(read_records(tmp_path / "r.jsonl"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_full():
    with pytest.raises(DiskFullError, match="the disk is full; the record was not added"):
        append_record("/dev/full", {"n": 1})


def test_commit_is_only_given_for_the_packages_own_checkout(monkeypatch):
    answers = {"ls-files": None, "rev-parse": "abc", "status": ""}
    monkeypatch.setattr(records, "_git", lambda folder, command, *rest: answers[command])
    records.git_state.cache_clear()
    try:
        assert records.git_state() == (None, None)
        answers["ls-files"] = "__init__.py"
        records.git_state.cache_clear()
        assert records.git_state() == ("abc", False)
        answers["status"] = " M types.py"
        records.git_state.cache_clear()
        assert records.git_state() == ("abc", True)
    finally:
        records.git_state.cache_clear()
