"""Batches of BFS on a CUDA device: sizes of what they hold, and rows by how many arcs they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 512
BLOCKS_A_PROCESSOR = 2
PIECE_ARCS = 256
"""Arcs of a row that a warp pushes at once: longer rows are cut."""
PULL_ABOVE = 4
"""Pull where the frontier holds more than one in so many of the arcs into rows not yet full."""
SLOTS = 256
"""Sources of a batch."""
SHORT, MIDDLE = 32, 4096
"""Most in-arcs of a row that four lanes pull, and of one that a warp does; a block does others."""
LEVEL_BYTES = 40
"""What is counted of a level."""
_MAPS = 3
"""Words of all sources in a row: who has seen it, and two fronts."""
_ITEM_BYTES, _ROW_BYTES, _COUNT_BYTES = 8, 4, 8
_ROW_WORDS_BYTES = SLOTS // 8


def constants() -> dict[str, int | str]:
    """What ``many_bfs.cu`` and ``many_bfs_answer.cu`` are compiled with."""
    return {
        "BLOCK": BLOCK,
        "BLOCKS_A_PROCESSOR": BLOCKS_A_PROCESSOR,
        "PIECE_ARCS": f"{PIECE_ARCS}u",
        "PULL_ABOVE": PULL_ABOVE,
        "WANTED_SLOTS": SLOTS,
    }


@dataclass(frozen=True)
class Ordered:
    """Rows with in-arcs by how many they have."""

    row: Any  # uint32 (rows with in-arcs,): the longer, the middle, then the shorter ones
    longer: int  # rows of more than `MIDDLE` in-arcs,
    middle: int  # of more than `SHORT`,
    shorter: int  # and all others


def ordered_rows(offsets: Any, xp: Any = np) -> Ordered:
    """Rows by kind, then id, by offsets, uint64 (rows + 1,), of NumPy or CuPy, which is ``xp``."""
    lengths = offsets[1:] - offsets[:-1]
    kinds = (
        lengths > MIDDLE,
        (lengths > SHORT) & (lengths <= MIDDLE),
        (lengths > 0) & (lengths <= SHORT),
    )
    parts = [xp.flatnonzero(kind).astype(np.uint32) for kind in kinds]
    return Ordered(xp.concatenate(parts), *(len(part) for part in parts))


def queue_capacity(rows: int, arcs: int) -> int:
    """Items of a queue at most: one for each row, and one for each whole piece of its arcs."""
    return rows + arcs // PIECE_ARCS + 1


def planes_of(rows: int) -> int:
    """Bits of the largest level there can be; one more where the next level might need it."""
    return rows.bit_length()


def state_bytes(rows: int, arcs: int) -> int:
    """Device memory of a batch besides the graph's rows, at most; ``arcs`` are out-arcs."""
    # Bitmaps: rows that are touched, and rows that count.
    words = _MAPS * rows * _ROW_WORDS_BYTES + rows // 4
    queues = 2 * queue_capacity(rows, arcs) * _ITEM_BYTES
    return words + queues + rows * _ROW_BYTES


def noted_bytes(rows: int) -> int:
    """Device memory of the levels that a batch notes."""
    return planes_of(rows) * rows * _ROW_WORDS_BYTES


def tallied_bytes(sources: int, bins: int) -> int:
    """Device memory of what is counted of a batch of so many sources."""
    return sources * (3 + bins) * _COUNT_BYTES


def answer_pitch(columns: int) -> int:
    """Levels from one source's answer to the next: rows of answers are multiples of 32 bytes."""
    return -(-max(columns, 1) // 8) * 8
