"""Searches from many sources on a CUDA device: how sources and blocks are divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 512
BLOCKS_A_PROCESSOR = 2
AHEAD = 2
VEC = {"f4": 4, "f8": 2, "i8": 2}
"""Sources of one thread; 32 times as many make a batch."""
BATCH_BYTES = 512
"""Bytes of a batch in each row."""
REDUCED = 128
"""Columns that are reduced one after another."""
STORED_BYTES = 32
"""Bytes of a source that are written at once: rows of answers are whole ones."""
BLOCK_GROUPS = 8
"""Groups of a launch: batches of more exceed the cache together, blocks of fewer wait longer."""
TILES_A_WARP = 4
"""A warp has so many tiles at least; smaller graphs have more groups."""
_KIND = {"f4": 0, "f8": 1, "i8": 2}


@dataclass(frozen=True)
class BlockGroups:
    """How the blocks of a launch are divided: each group searches batches of its own."""

    blocks: int  # of each group
    groups: int


def constants(dtype: np.dtype[Any]) -> dict[str, int | str]:
    """What ``many.cu`` is compiled with for distances of this type."""
    kind = dtype.str[1:]
    return {
        "KIND": _KIND[kind],
        "VEC": VEC[kind],
        "BLOCK": BLOCK,
        "BLOCKS_A_PROCESSOR": BLOCKS_A_PROCESSOR,
        "AHEAD": AHEAD,
    }


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """One source's reduction, as ``many.cu`` has it."""
    fields = [("reached", "u8"), ("largest", dtype.str)]
    if dtype.itemsize == 4:
        fields.append(("pad", "u4"))
    fields.append(("sum", "f8"))
    if dtype.kind == "i":
        fields.append(("exact", "i8"))
    return np.dtype(fields)
