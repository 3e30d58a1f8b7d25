"""Builds on a CUDA device of edges that are read from files, with less memory than their arcs take.

Graph500's edges are written once, as columns of 8 bytes, as a build stages its input. Then they are
built with all of the device's memory (``ample``), with little of it in sorted runs (``runs``), and,
if wanted, with as little by a pass over the edges for each range of rows (``passes``). All stores
must have the same manifest. The files are dropped from the page cache before each build.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import drop_from_cache
from harness.timing import timed

from ooc_graph import Kronecker
from ooc_graph.layout.blocks import BlockWriter, byte_view
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.runtime.machine import cores
from ooc_graph.shards import cuda_sides
from ooc_graph.shards.cuda_plan import runs_pay
from ooc_graph.shards.staged import StagedSource, stage_unit

DISK_BYTES = 4 << 30
UNIT_EDGES = 1 << 22


@dataclass(frozen=True)
class EdgeColumns(StagedSource):
    """Columns on the disk that say what they are."""

    def describe(self) -> dict[str, Any]:
        return {"format": "columns", "edges": self.edges}

    @property
    def bytes(self) -> int:
        """Bytes of all columns."""
        return self.edges * 8 * (2 + self.weighted)


def write_columns(kronecker: Kronecker, folder: Path) -> EdgeColumns:
    """All edges in files of a folder, which is made."""
    folder.mkdir()
    units = kronecker.units(UNIT_EDGES)
    with ThreadPoolExecutor(cores()) as pool:
        parts = list(pool.map(lambda unit: stage_unit(kronecker, unit, str(folder)), units))
    return EdgeColumns(False, kronecker.id_range, None, tuple(parts), kronecker.weight_dtype)


def disk_rates(folder: Path) -> dict[str, float]:
    """Bytes per second that threads write as a build writes its chunks, read back, and do both."""
    data = byte_view(np.random.default_rng(1).integers(0, 256, CHUNK_BYTES, np.uint8))
    paths = [folder / f"{number}.chunk" for number in range(DISK_BYTES // CHUNK_BYTES)]
    others = [folder / f"{number}.other" for number in range(len(paths))]

    def write(path: Path) -> None:
        with BlockWriter(path) as writer:
            writer.write(data)

    def read(path: Path) -> None:
        path.read_bytes()

    rates = {}
    with ThreadPoolExecutor(cores()) as pool:

        def rate(name: str, work: list[Callable[[], None]]) -> None:
            elapsed_s = timed(lambda: [*pool.map(lambda each: each(), work)]).elapsed_s
            rates[f"{name}_bytes_per_s"] = len(work) * CHUNK_BYTES / elapsed_s
            drop_from_cache(folder.iterdir())

        rate("write", [partial(write, path) for path in paths])
        rate("read", [partial(read, path) for path in paths])
        pairs = zip(paths, others, strict=True)
        rate("both", [each for a, b in pairs for each in (partial(read, a), partial(write, b))])
    for path in (*paths, *others):
        path.unlink()
    return rates


def way_of_building(way: str) -> None:
    """Have builds take one of the ways from here on."""
    cuda_sides.runs_pay = runs_pay if way != "passes" else lambda *_: False


def disk_seconds(run: dict[str, Any], source: EdgeColumns, rates: dict[str, float]) -> float:
    """What the disk alone takes: edges read, runs written, then these read and the store written.

    Edges are read a second time for the runs, which counts as nothing: where they fit the page
    cache they come from there.
    """
    return float(
        source.bytes / rates["read_bytes_per_s"]
        + run["run_bytes"] / rates["write_bytes_per_s"]
        + (run["run_bytes"] + run["store_bytes"]) / rates["both_bytes_per_s"]
    )


def summary(
    runs: dict[str, list[dict[str, Any]]], source: EdgeColumns, rates: dict[str, float]
) -> dict[str, Any]:
    """Medians by way, and of runs what share of the disk's own rate they reach."""
    median = {way: statistics.median(one["elapsed_s"] for one in runs[way]) for way in runs}
    best = min(runs["runs"], key=lambda run: abs(run["elapsed_s"] - median["runs"]))
    stages = best["stages"]
    return {
        "median_s": median,
        "run_bytes_written": best["run_bytes"],
        "run_bytes_read": best["run_bytes"],
        "input_bytes": source.bytes,
        "store_bytes": best["store_bytes"],
        "runs_written_bytes_per_s": best["run_bytes"] / stages["runs"],
        "rows_bytes_per_s": (best["run_bytes"] + best["store_bytes"]) / stages["rows"],
        "disk": rates,
        "disk_s": disk_seconds(best, source, rates),
        "share_of_disk": disk_seconds(best, source, rates) / best["elapsed_s"],
    }
