"""Resident memory of a Dask worker that searches, with Dask's default thresholds.

    python benchmarks/worker_memory.py [--scale 19]

For each limit a worker of one thread runs BFS and SSSP twice each, its memory sampled every 3 ms.
"""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import Any

from distributed import Client, LocalCluster
from harness.program import Program

import ooc_graph as og
from ooc_graph.report.memory_watch import MemoryWatch, resident_bytes
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory

LIMITS = ["350MB", "430MB", "460MB", "500MB", "600MB", "800MB", "1GB", "2GB"]


def searched(graph: og.Graph, root: int, limit: str) -> dict[str, Any]:
    done = []
    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit=limit, **where) as cluster,
        Client(cluster) as client,
    ):
        (pid,) = client.run(os.getpid).values()
        client.run(lambda: bool(import_module("ooc_graph.search.algorithm")))
        with MemoryWatch([pid], interval_s=0.003) as watch:
            try:
                for search in (og.bfs, og.bfs, og.sssp, og.sssp):
                    search(graph, root, client=client)
                    done.append(search.__name__)
            except og.errors.MemoryBudgetError as error:
                print(f"{limit}: {error}")
        client.run(release)
        time.sleep(1)
        (state,) = client.scheduler_info(n_workers=-1)["workers"].values()
        return {
            "limit_bytes": state["memory_limit"],
            "before_bytes": watch.baseline_bytes,
            "most_bytes": watch.peak_bytes,
            "after_bytes": resident_bytes([pid]),
            "calls": done,
        }


def release() -> None:
    """Forget what searches keep."""
    engine_cache.release_idle()
    give_back_freed_memory()


def main() -> None:
    program = Program("worker_memory", __doc__, scale=19)
    options = program.parse()
    source = og.Kronecker(options.scale)
    with program.scratch() as folder:
        graph = og.build(source, folder / "g.zarr", shards=4)
        figures = [searched(graph, int(source.search_keys(1)[0]), limit) for limit in LIMITS]
    program.record({"scale": options.scale}, figures)


if __name__ == "__main__":
    main()
