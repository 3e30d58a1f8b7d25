"""Bytes that a search moves at least, and words that it looks up at random, from its own counts.

A model, not a measurement. It counts what the algorithm must read and write once, and leaves out
that memory gives whole sectors of 32 bytes for a word, and that what is read twice may come from
the cache. So a share of the copy ceiling is a lower bound of the memory's use, and a share of the
look-up ceiling tells how near the search is to the rate at which single words come.

BFS, of n rows (bitmaps take n / 8 bytes; there are four of them):

- at first the bitmaps are written: n / 2 bytes;
- a level that pushes reads its arcs twice (once to claim, once to settle parents), 4 bytes and one
  look-up each time, and writes and reads 8 bytes of queue for each vertex found;
- a level that pulls reads the bitmap of visited rows and writes the next frontier's, n / 4 bytes,
  reads 4 bytes and looks one bit up for each arc examined, and reads the parent's original id, 4
  bytes, for each vertex found;
- the answer: 4 bytes of parent and 1 of level a row.

SSSP, of n rows: 8 bytes (neighbour and weight) and one look-up of a distance for each arc examined;
distances are set at first and answers written, 12 bytes a row. How often all rows are passed over
is not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """One level of a BFS: what it found, how, and what it cost."""

    pull: bool
    found: int
    pushed: int
    examined: int
    seconds: float


@dataclass(frozen=True)
class Work:
    """Bytes moved at least, words looked up at random, and the table's size that these lie in."""

    bytes: int
    lookups: int
    table_bytes: int


def bfs_work(rows: int, levels: Sequence[Level]) -> Work:
    io_stats, lookups = rows // 2 + 5 * rows, 0
    for level in levels:
        if level.pull:
            io_stats += rows // 4 + 4 * level.examined + 4 * level.found
            lookups += level.examined
        else:
            io_stats += 8 * level.pushed + 16 * level.found
            lookups += 2 * level.pushed
    return Work(io_stats, lookups, rows // 8)


def sssp_work(rows: int, phase_arcs: Mapping[str, int]) -> Work:
    examined = sum(phase_arcs.values())
    return Work(8 * examined + 12 * rows, examined, 4 * rows)


def shares(work: Work, seconds: float, copy_rate: float, lookup_rate: float) -> dict[str, float]:
    """Shares of two ceilings: bytes copied, and words looked up, per second."""
    return {
        "copy": work.bytes / seconds / copy_rate,
        "lookup": work.lookups / seconds / lookup_rate,
    }
