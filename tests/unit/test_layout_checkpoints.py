"""Checkpoints of a partial store: recorded once, found again, safe from runs that are over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from ooc_graph.layout.checkpoints import Checkpoints, key_of, write_checkpoint
from ooc_graph.layout.chunks import FileEntry, read_chunk, write_chunk
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.keys import key_for
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.store_folder import store_folder, store_within
from ooc_graph.layout.stored import Stored

SPEC = ArraySpec("table", 7, np.dtype(np.float32), 5, chunk_rows=3)
TABLE = np.arange(35, dtype=np.float32).reshape(7, 5)


def checkpoints_at(tmp_path: Path, attempt: str) -> Checkpoints:
    (tmp_path / "spill").mkdir(exist_ok=True)
    return Checkpoints(tmp_path, attempt, "some key")


def finish(checkpoints: Checkpoints, number: int) -> None:
    def write(folder: Path) -> Sequence[FileEntry]:
        return [write_chunk(folder, SPEC, number, [TABLE[slice(*SPEC.bounds(number))]])]

    write_checkpoint(checkpoints.folder, checkpoints.attempt, number, write, {"number": number})


def test_checkpoints_are_found_by_the_next_run(tmp_path: Path) -> None:
    first = checkpoints_at(tmp_path, "first")
    finish(first, 0)
    finish(first, 2)
    second = checkpoints_at(tmp_path, "second")
    assert key_of(tmp_path) == "some key"
    done = dict(second)
    assert sorted(done) == [0, 2]
    assert done[2].facts == {"number": 2}
    (entry,) = done[2].entries
    found = np.empty((1, 5), np.float32)
    assert entry.crc32c is not None
    read_chunk(tmp_path, SPEC, 2, found, entry.crc32c)
    assert np.array_equal(found, TABLE[6:])


def test_a_run_that_is_over_writes_nothing(tmp_path: Path) -> None:
    first = checkpoints_at(tmp_path, "first")
    second = checkpoints_at(tmp_path, "second")
    with pytest.raises(FileNotFoundError):
        finish(first, 1)
    assert not dict(second)
    assert not first.attempt.exists()
    assert not (tmp_path / "table").exists()


def write_store(attempt: Path, final: Path) -> None:
    spec = ArraySpec("x", 7, np.dtype(np.int64))
    with (
        store_within(attempt, final) as made,
        partial_store(made, "result", overwrite=False) as store,
    ):
        chunk = write_chunk(store.folder, spec, 0, [np.arange(7)])
        store.commit("result", {}, [spec], [chunk])


def test_a_store_of_a_run_that_is_over_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended by the next run while it commits, when its chunks are written."""
    folder, begun_with = tmp_path / "all", {"kernel": "bfs"}
    plain = Partial._write_documents

    def ended(store: Partial, *given: Any) -> list[FileEntry]:
        Checkpoints(folder, "next", key_for(begun_with))
        return plain(store, *given)

    monkeypatch.setattr(Partial, "_write_documents", ended)
    with (
        store_folder(folder, begun_with, overwrite=False) as attempt,
        pytest.raises(FileNotFoundError),
    ):
        write_store(attempt, folder / "7.zarr")
    assert [path.name for path in folder.iterdir()] == ["spill"]
    left = {path.name for path in (folder / "spill").iterdir()}
    assert left == {"attempt-next", "done", "key"}


def test_a_unit_that_fails_leaves_nothing(tmp_path: Path) -> None:
    checkpoints = checkpoints_at(tmp_path, "first")

    def write(folder: Path) -> Sequence[FileEntry]:
        (folder / "half").write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_checkpoint(checkpoints.folder, checkpoints.attempt, 1, write, {})
    assert sorted(path.name for path in checkpoints.attempt.iterdir()) == []
    assert not dict(checkpoints)


def test_a_run_that_ends_while_a_unit_is_written(tmp_path: Path) -> None:
    first = checkpoints_at(tmp_path, "first")

    def write(folder: Path) -> Sequence[FileEntry]:
        entries = [write_chunk(folder, SPEC, 0, [TABLE[:3]])]
        checkpoints_at(tmp_path, "second")
        return entries

    with pytest.raises(FileNotFoundError):
        write_checkpoint(tmp_path, first.attempt, 0, write, {})
    assert not first.attempt.exists()
    assert not dict(checkpoints_at(tmp_path, "third"))


@pytest.mark.parametrize("damage", ["record", "gone", "short", "other"])
def test_damaged_checkpoints_are_not_taken(tmp_path: Path, damage: str) -> None:
    checkpoints = checkpoints_at(tmp_path, "first")
    finish(checkpoints, 0)
    finish(checkpoints, 1)
    record, chunk = tmp_path / "spill/done/1.json", tmp_path / SPEC.chunk_path(1)
    if damage == "record":
        record.write_bytes(record.read_bytes()[:-9])
    elif damage == "gone":
        chunk.unlink()
    elif damage == "short":
        chunk.write_bytes(chunk.read_bytes()[:-8])
    else:
        chunk.write_bytes((tmp_path / SPEC.chunk_path(0)).read_bytes())
    assert sorted(dict(checkpoints)) == [0]


def test_tables_are_what_zarr_reads(tmp_path: Path) -> None:
    """Chunks of whole rows, not as many as would fit."""
    with partial_store(tmp_path / "t.zarr", "result", overwrite=False) as store:
        entries = [
            write_chunk(store.folder, SPEC, index, [TABLE[slice(*SPEC.bounds(index))]])
            for index in range(SPEC.chunks)
        ]
        store.commit("result", {}, [SPEC], entries)
    group = zarr.open_group(str(tmp_path / "t.zarr"), mode="r")
    assert group["table"].chunks == (3, 5)
    assert np.array_equal(group["table"][:], TABLE)
    stored = Stored.open(tmp_path / "t.zarr")
    assert stored.spec("table") == SPEC
    assert np.array_equal(stored.read("table"), TABLE)
    stored.verify()
