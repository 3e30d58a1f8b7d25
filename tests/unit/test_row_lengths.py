"""How long rows are, read from offsets a stretch at a time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ooc_graph.memory.cpu.plan import PIECE_ROW_BYTES, PIECE_ROWS
from ooc_graph.memory.cuda.device_facts import last_longer
from ooc_graph.shards.tier_facts import count_lengths
from ooc_graph.shards.tiers import read_lengths
from ooc_graph.types import Dealing
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process

CHUNK = 50_000


class Offsets:
    """Offsets of the rows of some shards, of which a chunk is made when it is asked for."""

    def __init__(self, lengths: np.ndarray, shards: int) -> None:
        self.rows, self.names = len(lengths), [str(shard) for shard in range(shards)]
        self.local = [
            lengths[Dealing(self.rows, shards, s).internal_of(np.arange(n))]
            for s, n in enumerate(Dealing(self.rows, shards, s).rows for s in range(shards))
        ]

    def spec(self, array: str) -> SimpleNamespace:
        length = len(self.local[int(array)]) + 1
        return SimpleNamespace(array=array, length=length, chunks=-(-length // CHUNK))

    def chunk(self, spec: SimpleNamespace, index: int) -> np.ndarray:
        lengths, begin = self.local[int(spec.array)], index * CHUNK
        count = min(CHUNK, spec.length - begin)
        before = lengths[:begin].sum(dtype=np.int64)
        inside = np.cumsum(lengths[begin : begin + count - 1], dtype=np.int64)
        return (before + np.concatenate([[0], inside])).astype(np.uint64)


def lengths_of(rows: int) -> np.ndarray:
    """Falling, but for a few by chance."""
    lengths = (3 * rows // (1 + np.arange(rows)) % 1000).astype(np.int16)
    at = np.random.default_rng(rows).integers(0, rows, 5)
    lengths[at] = 40
    return lengths


@pytest.mark.parametrize("shards", [1, 3, 8])
@pytest.mark.parametrize("rows", [1, 5, 1024, 200_000])
def test_lengths_are_counted(rows: int, shards: int) -> None:
    lengths = lengths_of(rows)
    stored = Offsets(lengths, shards)
    beyond = (0, 3, 39, 5000)
    counted, longer = count_lengths(stored, stored.names, rows, beyond)  # type: ignore[arg-type]
    length, times = np.unique(lengths, return_counts=True)
    assert (counted.length.tolist(), counted.rows.tolist()) == (length.tolist(), times.tolist())
    assert longer == tuple(last_longer(lengths, arcs) for arcs in beyond)
    assert longer[3] == 0


def test_offsets_are_not_all_in_memory_at_once() -> None:
    rows = 3_000_000
    most = 8 * rows / 3
    assert in_own_process(held_while_counting, rows, most) < most


def held_while_counting(rows: int, most: float) -> int:
    """Bytes at once, those of offsets as they are asked for included."""
    stored = Offsets(lengths_of(rows), 2)
    return traced_peak(
        lambda: count_lengths(stored, stored.names, rows, (1, 3, 5)),  # type: ignore[arg-type]
        most,
    )


def test_one_chunk_of_offsets_is_in_memory_at_a_time() -> None:
    rows, chunk = 1_500_000, 500_000
    planned = 8 * chunk + PIECE_ROWS * PIECE_ROW_BYTES
    kept = 4 * rows + 8 * -(-rows // 64)
    assert 8 * chunk < in_own_process(held_while_reading, rows, chunk) - kept <= planned


class Chunks:
    """Offsets of one shard's rows, which have an arc each."""

    def __init__(self, rows: int, chunk: int) -> None:
        self._rows, self._chunk = rows, chunk

    def spec(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(chunks=-(-(self._rows + 1) // self._chunk))

    def chunk(self, _: SimpleNamespace, index: int) -> np.ndarray:
        begin = index * self._chunk
        end = min(begin + self._chunk, self._rows + 1)
        return np.arange(begin, end, dtype=np.uint64)


def held_while_reading(rows: int, chunk: int) -> int:
    stored, found = Chunks(rows, chunk), []

    def read() -> None:
        found[:] = read_lengths(stored, ["0"], rows, np.dtype(np.int32))  # type: ignore[arg-type]

    most = traced_peak(read, 4 * rows + 8 * -(-rows // 64) + 8 * chunk + 64 * PIECE_ROWS)
    assert (found[0] == 1).all()
    return most
