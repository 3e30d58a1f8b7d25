"""Build rate and memory of the external sort: Kronecker edges to a committed store.

    python benchmarks/build.py [--scale 22] [--memory-limit 256MiB] [--repeats 3] [--folder DIR]

Everything is in the time: generating (twice), degrees, renumbering, sorting, writing, hashing,
fsync, manifest; kernels are compiled before. Memory is the peak of all processes less that of the
idle cluster. The share of the time spent waiting for the disk is of the worker threads' samples.
"""

import contextlib
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.program import Program, load_average
from harness.timing import sampled

from ooc_graph import Kronecker
from ooc_graph.model.resources import parse_bytes
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.runtime.building import build_with_report
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.runtime.workplace import workplace_for
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.types import NoProgress


def waiting(pids: Iterable[int]) -> int:
    """Threads of processes that wait for the disk (state D); the system keeps no account of it."""
    count = 0
    for pid in pids:
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                count += stat.read_text().rpartition(") ")[2][0] == "D"
    return count


def one(client: Any, source: Kronecker, folder: Path, limit: int) -> dict[str, Any]:
    os.sync()
    pids, waits = client.run(os.getpid).values(), list[int]()
    with MemoryWatch(interval_s=0.02) as watch, sampled(lambda: waits.append(waiting(pids)), 0.1):
        store, options = folder / "graph.zarr", BuildOptions(overwrite=True)
        workplace = workplace_for(client, limit)
        _, report = build_with_report(workplace, source, store, options, NoProgress())
    return {
        "elapsed_s": report.elapsed_s,
        "edges_per_s": report.edges / report.elapsed_s,
        "stages": {name: round(stop - start, 3) for name, start, stop in report.stages},
        "peak_above_idle_bytes": watch.peak_bytes - watch.baseline_bytes,
        "disk_wait_share": statistics.fmean(waits or [0]) / sum(client.nthreads().values()),
        "arcs": report.arcs,
    }


def main() -> None:
    kinds = ["unweighted", "weighted"]
    program = Program("build", __doc__, scale=22, repeats=3, kinds=kinds, folder=None)
    program.add("--memory-limit")
    program.add("--workers", type=int, default=1)
    options = program.parse()
    limit = parse_bytes(options.memory_limit) or default_limit_bytes()
    with program.scratch() as folder, local_cluster(options.workers) as client:
        for kind in options.kinds:
            source = Kronecker(options.scale, weighted=kind == "weighted")
            one(client, Kronecker(10, weighted=source.weighted), folder, limit)
            runs = [one(client, source, folder, limit) for _ in range(options.repeats)]
            parameters = program.given("scale", "workers") | {"edge_factor": 16}
            parameters |= {"weighted": source.weighted, "memory_limit_bytes": limit}
            parameters["threads"] = sum(client.nthreads().values())
            most = ("peak_above_idle_bytes", "disk_wait_share")
            figures = {
                "median_edges_per_s": statistics.median(run["edges_per_s"] for run in runs),
                **{name: max(run[name] for run in runs) for name in most},
            }
            program.record(parameters, figures | load_average() | {"runs": runs})


if __name__ == "__main__":
    main()
