"""Arrays of a store that grow piece by piece have the files of arrays that are written whole."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.cuda.build.store_rows import StoreRows
from ooc_graph.layout import names
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.shards import chunk_sink
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_tables import SideWriter
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import Dealing

CHUNK = 1 << 10


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "CHUNK_BYTES", CHUNK)


def workforce(executor: ThreadPoolExecutor, limit_bytes: int = 1 << 30) -> Workforce:
    return Workforce(executor, BuildBudget(limit_bytes, 1, 2), lambda function: function())


def made_folder(store: Path) -> Path:
    """Nobody makes a store's folder but who begins the store."""
    store.mkdir(exist_ok=True)
    return store


def whole(store: Path, path: str, data: np.ndarray[Any, Any]) -> list[FileEntry]:
    spec = ArraySpec(path, len(data), data.dtype)
    return [
        write_chunk(made_folder(store), spec, index, [data[slice(*spec.bounds(index))]])
        for index in range(spec.chunks)
    ]


@pytest.mark.parametrize("dtype", ["uint32", "int64"])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 256, 5000])
def test_pieces_fill_chunks(dtype: str, length: int, tmp_path: Path) -> None:
    data = np.random.default_rng(length).integers(0, 1 << 30, length).astype(dtype)
    made: list[int] = []

    def buffer(size: int) -> np.ndarray[Any, Any]:
        made.append(size)
        return np.empty(size, np.uint8)

    with ThreadPoolExecutor(2) as executor:
        sink = ChunkSink(made_folder(tmp_path / "pieces"), workforce(executor), buffer)
        column, at = sink.column("a", dtype), 0
        for step in (0, 1, 100, 3, 900, length):
            column.append(data[at : at + step])
            at += step
        column.finish()
        sink.finish()
    assert sorted(sink.entries, key=lambda e: e.path) == sorted(
        whole(tmp_path / "whole", "a", data), key=lambda e: e.path
    )
    assert sink.specs == [ArraySpec("a", length, np.dtype(dtype))]
    assert len(made) <= chunk_sink.OPEN_COLUMNS + 2
    assert set(made) <= {CHUNK}


def test_few_buffers_do_where_memory_is_short(tmp_path: Path) -> None:
    made: list[int] = []

    def buffer(size: int) -> np.ndarray[Any, Any]:
        made.append(size)
        return np.empty(size, np.uint8)

    data = np.arange(10_000)
    with ThreadPoolExecutor(2) as executor:
        sink = ChunkSink(tmp_path, workforce(executor, limit_bytes=1), buffer)
        columns = [sink.column(f"{number}", "int64") for number in range(chunk_sink.OPEN_COLUMNS)]
        for start in range(0, len(data), 50):
            for column in columns:
                column.append(data[start : start + 50])
        for column in columns:
            column.finish()
        sink.finish()
    assert len(made) == chunk_sink.OPEN_COLUMNS + 1
    assert len({entry.digest for entry in sink.entries}) * len(columns) == len(sink.entries)


def test_a_full_disk_is_told_to_whoever_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with ThreadPoolExecutor(2) as executor:
        sink = ChunkSink(tmp_path, workforce(executor), lambda size: np.empty(size, np.uint8))
        column = sink.column("a", "int64")
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            column.append(np.arange(100_000))
        sink.stop()


@pytest.mark.parametrize("shards", [1, 4, 16])
@pytest.mark.parametrize("cuts", [[], [1], [700, 1024, 1030], [2048, 5000]])
def test_ranges_are_cut_into_shards(shards: int, cuts: list[int], tmp_path: Path) -> None:
    """Rows in store order, whose lengths and neighbours are known."""
    rows = 5300
    dealing = [Dealing(rows, shards, shard) for shard in range(shards)]
    owned = np.concatenate([one.owned() for one in dealing])
    starts = np.cumsum([0, *(one.rows for one in dealing)])
    lengths = owned % 5
    neighbors = np.repeat(owned, lengths).astype(np.uint32)
    weights = neighbors.astype(np.float64) / 2
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    expected = []
    for one, start, stop in zip(dealing, starts[:-1], starts[1:], strict=True):
        begin, end = int(ends[start]), int(ends[stop])
        for order in ("hub", "light"):
            group = f"shards/{one.shard:05d}/in/{order}"
            offsets = ends[start : stop + 1] - ends[start]
            expected += whole(tmp_path / "whole", f"{group}/offsets", offsets)
            expected += whole(tmp_path / "whole", f"{group}/neighbors", neighbors[begin:end])
        expected += whole(tmp_path / "whole", f"{group}/weights", weights[begin:end])
    with ThreadPoolExecutor(2) as executor:
        cut = made_folder(tmp_path / "cut")
        sink = ChunkSink(cut, workforce(executor), lambda n: np.empty(n, np.uint8))
        writer = SideWriter(sink, "in", ("hub", "light"), starts, np.dtype(np.float64))
        for low, high in zip([0, *cuts], [*cuts, rows], strict=True):
            begin, end = int(ends[low]), int(ends[high])
            part = neighbors[begin:end]
            offsets = ends[low : high + 1] - ends[low]
            writer.add(low, high, StoreRows(offsets, part, part, weights[begin:end]))
        writer.finish()
        sink.finish()
    assert writer.arcs == len(neighbors)
    assert {e.path: e for e in sink.entries} == {e.path: e for e in expected}
    assert len(sink.specs) == 5 * shards
