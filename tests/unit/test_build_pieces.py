"""Merged buckets in memory and in files, and row numbers of any width: the same store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ooc_graph.shards import merge, merge_writer, plan
from ooc_graph.shards import pieces as pieces_module
from ooc_graph.shards.merge import MergeTask, merge_buckets
from ooc_graph.shards.pieces import PieceLostError, Pieces, forget_pieces
from tests.unit.test_build_oracle import ListSource, build_here, random_source, small_steps

BUFFER = 400


@pytest.mark.parametrize("buffer_bytes", [0, BUFFER])
def test_pieces_are_read_back(buffer_bytes: int, tmp_path: Path) -> None:
    pieces = Pieces(str(tmp_path), buffer_bytes)
    arrays = {f"p{n}": np.arange(n, 3 * n, dtype=np.uint32) for n in (1, 20, 50, 70, 300)}
    for name, data in arrays.items():
        scratch = data.copy()
        pieces.write(name, scratch)
        scratch[:] = 0
    for name, data in arrays.items():
        for start, stop in ((0, len(data)), (1, len(data)), (len(data) // 2, len(data) - 1)):
            if start < stop:
                read = np.concatenate([*pieces.read(name, data.dtype, start, stop)])
                assert (read == data[start:stop]).all()
    pieces.write("p20", arrays["p50"])
    assert (
        np.concatenate([*pieces.read("p20", arrays["p50"].dtype, 0, 100)]) == arrays["p50"]
    ).all()
    pieces.remove(["p20", "p1"])
    with pytest.raises((PieceLostError, FileNotFoundError)):
        next(pieces.read("p20", np.dtype(np.uint32), 0, 1))
    forget_pieces()


def test_buffers_are_used_again(tmp_path: Path) -> None:
    """A new piece takes the place of one that is gone; the ones that stay keep theirs."""
    forget_pieces()
    pieces = Pieces(str(tmp_path), BUFFER)
    data = np.arange(BUFFER // 4, dtype=np.uint32)
    places = []
    for number in range(10):
        pieces.write(str(number), data + number)
        (held,) = pieces.read(str(number), data.dtype, 0, len(data))
        places.append(held.ctypes.data)
        if number >= 2:
            pieces.remove([str(number - 2)])
    assert len(set(places)) == 3
    for number in (8, 9):
        assert (next(pieces.read(str(number), data.dtype, 0, len(data))) == data + number).all()
    forget_pieces()


def test_only_pieces_of_a_buffer_s_size_take_one(tmp_path: Path) -> None:
    """Memory that pieces hold stays within four times their size, whatever was held before."""
    forget_pieces()
    pieces = Pieces(str(tmp_path), BUFFER)
    for name, elements, lasting in (("huge", 1000, False), ("stays", 60, True), ("tiny", 9, False)):
        pieces.write(name, np.zeros(elements, np.uint32), lasting=lasting)
        assert held_bytes() == 4 * elements, name
        pieces.remove([name])
        assert held_bytes() == 0, name
    pieces.write("usual", np.zeros(60, np.uint32))
    assert held_bytes() == BUFFER
    pieces.remove(["usual"])
    pieces.write("next", np.zeros(90, np.uint32))
    assert held_bytes() == BUFFER
    forget_pieces()


def held_bytes() -> int:
    """Bytes of all pieces and of the buffers that wait for others."""
    waiting = sum(len(buffer) for buffer in pieces_module._spare)
    return sum(len(buffer) for buffer, _ in pieces_module._in_memory.values()) + waiting


@pytest.mark.parametrize("directed", [False, True])
def test_no_piece_stays_when_all_is_written(
    directed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths of rows are used up with the offsets of their shard; the last shard's may stay."""
    source = random_source(6, vertices=4000, edges=9000, weight="float32", directed=directed)
    most, now = 0, {}
    real = merge.write_offsets

    def noting(*arguments: Any) -> Any:
        nonlocal most
        with pieces_module._lock:
            now.update(dict.fromkeys(pieces_module._in_memory))
            most = max(most, sum("lengths" in name for name in pieces_module._in_memory))
        return real(*arguments)

    noting.__name__ = real.__name__
    monkeypatch.setattr(merge_writer, "write_offsets", noting)
    with small_steps(bucket=1100, chunk=64, group=1, waiting=10_000):
        build_here(source, tmp_path / "g.zarr", shards=4)
    every = sum("lengths" in name for name in now)
    assert 0 < most < every


@pytest.mark.parametrize("sides", [1, 2])
def test_lengths_of_rows_count_in_what_must_fit(sides: int) -> None:
    """Graphs of few arcs a vertex: what waits for the offsets is as much as the arcs are."""
    vertices, slot = 1 << 28, plan.MOST_SLOT_BYTES
    lasting = plan.LENGTH_BYTES * sides * vertices
    pieces = plan.BUFFER_SLACK * 4 * vertices
    least = plan.RESERVE_BYTES + 2 * slot + pieces + lasting
    for limit, fits in ((least, True), (least - 1, False)):
        assert plan.BuildBudget(limit, 1, 2).pieces_fit(slot, 4, vertices, lasting) == fits


def test_a_lost_piece_is_made_again_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker held in memory is gone when it is killed: the build goes on from its runs."""
    source = random_source(5, vertices=400, edges=5000, weight="float32")
    with small_steps(bucket=300, chunk=64, waiting=0):
        wanted = build_here(source, tmp_path / "files.zarr").manifest
    calls, in_memory = 0, []

    def restarting(
        task: MergeTask, side: str, numbers: Sequence[int], used: Sequence[str]
    ) -> list[int]:
        nonlocal calls
        calls += 1
        in_memory.append(task.pieces.buffer_bytes > 0)
        if calls == 4:
            forget_pieces()
        return merge_buckets(task, side, numbers, used)

    restarting.__name__ = merge_buckets.__name__
    with small_steps(bucket=300, chunk=64, group=1, waiting=1000):
        monkeypatch.setattr(merge_writer, "merge_buckets", restarting)
        found = build_here(source, tmp_path / "lost.zarr").manifest
    assert in_memory[0]
    assert not in_memory[-1]
    assert found is not None
    assert wanted is not None
    assert found.sha256 == wanted.sha256


def test_builds_at_once_keep_their_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that begins and ends in the middle of another costs that one no piece."""
    source = random_source(5, vertices=400, edges=5000, weight="float32")
    other = random_source(6, vertices=300, edges=4000, weight=None)
    with small_steps(bucket=300, chunk=64, waiting=0):
        wanted = [build_here(source, tmp_path / "a.zarr").manifest]
        wanted += [build_here(other, tmp_path / "b.zarr").manifest]
    found: list[Any] = []
    in_memory: list[bool] = []
    begun = False

    def interrupted(
        task: MergeTask, side: str, numbers: Sequence[int], used: Sequence[str]
    ) -> list[int]:
        nonlocal begun
        in_memory.append(task.pieces.buffer_bytes > 0)
        if len(in_memory) == 4 and not begun:
            begun = True
            assert held_bytes() > 0
            found.append(build_here(other, tmp_path / "inner.zarr").manifest)
        return merge_buckets(task, side, numbers, used)

    interrupted.__name__ = merge_buckets.__name__
    with small_steps(bucket=300, chunk=64, group=1, waiting=1000):
        monkeypatch.setattr(merge_writer, "merge_buckets", interrupted)
        found.insert(0, build_here(source, tmp_path / "outer.zarr", slots=1).manifest)
    assert begun
    assert all(in_memory)
    assert [manifest.sha256 for manifest in found] == [
        manifest.sha256 for manifest in wanted if manifest is not None
    ]
    assert held_bytes() == 0


def test_rows_of_a_bucket_beyond_16_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = np.arange(150_000)
    source = ListSource(ends, ends[::-1].copy(), id_range=(0, len(ends)))
    found = set()
    widths: list[Any] = []
    real = plan.plan_buckets

    def recorded(*arguments: Any) -> plan.Buckets:
        buckets = real(*arguments)
        widths.append(buckets.row_dtype)
        return buckets

    monkeypatch.setattr(plan, "plan_buckets", recorded)
    for narrow in (1 << 16, 100):
        with small_steps(narrow=narrow, bucket=1 << 20):
            manifest = build_here(source, tmp_path / f"{narrow}.zarr").manifest
            assert manifest is not None
            found.add(manifest.sha256)
    assert widths == [np.uint16, np.uint32]
    assert len(found) == 1
