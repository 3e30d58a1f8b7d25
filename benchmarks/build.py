"""Build rate and memory of the external sort: Kronecker edges to a committed store.

    python benchmarks/build.py [--scale 22] [--memory-limit 256MiB] [--repeats 3] [--folder DIR]

Everything is in the time: generating (twice), degrees, renumbering, sorting, writing, hashing,
fsync, manifest. The cluster is started and its kernels are compiled before. Memory is the peak of
all processes less that of the idle warmed-up cluster. The share of the time spent waiting for the
disk is that of the worker threads' samples in which they wait for it. Appends to
records/build.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ooc_graph import Kronecker
from ooc_graph.model.sizes import parse_bytes
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.report.records import append_record
from ooc_graph.runtime.building import build_with_report
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.shards.build_options import BuildOptions

RECORDS = Path(__file__).parent / "records" / "build.jsonl"


class DiskWatch:
    """How many threads of the workers wait for the disk (state D), sampled while a block runs.

    The system keeps no such account by default, so their states are looked at.
    """

    def __init__(self, pids: Sequence[int], interval_s: float = 0.1) -> None:
        self._pids, self._interval_s = pids, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.waiting = self.samples = 0

    def __enter__(self) -> DiskWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.samples += 1
            for pid in self._pids:
                for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
                    with contextlib.suppress(OSError):
                        self.waiting += stat.read_text().rpartition(") ")[2][0] == "D"


def one(client: Any, source: Kronecker, folder: Path, limit: int) -> dict[str, Any]:
    """Build once; the figures."""
    os.sync()
    disk = DiskWatch(list(client.run(os.getpid).values()))
    with MemoryWatch(interval_s=0.02) as watch, disk:
        _, report = build_with_report(
            source,
            folder / "graph.zarr",
            BuildOptions(overwrite=True),
            client=client,
            memory_limit=limit,
        )
    return {
        "elapsed_s": report.elapsed_s,
        "edges_per_s": report.edges / report.elapsed_s,
        "stages": {name: round(stop - start, 3) for name, start, stop in report.stages},
        "peak_above_idle_bytes": watch.peak_bytes - watch.baseline_bytes,
        "disk_wait_share": disk.waiting / max(1, disk.samples) / sum(client.nthreads().values()),
        "arcs": report.arcs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--memory-limit", default=None)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", default="unweighted,weighted")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    limit = parse_bytes(options.memory_limit) or default_limit_bytes()
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="build-benchmark-") as scratch,
        local_cluster(options.workers) as client,
    ):
        for kind in options.kinds.split(","):
            source = Kronecker(options.scale, weighted=kind == "weighted")
            one(client, Kronecker(10, weighted=source.weighted), Path(scratch), limit)
            runs = [one(client, source, Path(scratch), limit) for _ in range(options.repeats)]
            median = statistics.median(run["edges_per_s"] for run in runs)
            peak = max(run["peak_above_idle_bytes"] for run in runs)
            threads = sum(client.nthreads().values())
            share = max(run["disk_wait_share"] for run in runs)
            print(
                f"scale {options.scale} {kind:10} limit {limit / 2**20:8.0f} MiB: "
                f"{median / 1e6:6.2f} M edges/s, peak {peak / 2**20:7.0f} MiB above idle, "
                f"{share:5.1%} of the threads' time waiting for the disk"
            )
            append_record(
                RECORDS,
                {
                    "benchmark": "build",
                    "parameters": {
                        "scale": options.scale,
                        "edge_factor": 16,
                        "weighted": source.weighted,
                        "memory_limit_bytes": limit,
                        "workers": options.workers,
                        "threads": threads,
                    },
                    "figures": {
                        "median_edges_per_s": median,
                        "peak_above_idle_bytes": peak,
                        "disk_wait_share": share,
                        "load_average": os.getloadavg()[0],
                        "runs": runs,
                    },
                },
            )


if __name__ == "__main__":
    main()
