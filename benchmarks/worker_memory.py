"""Resident memory of a Dask worker that searches, with Dask's default thresholds.

    python benchmarks/worker_memory.py [--scale 19]

For each memory limit a worker of one thread runs BFS and SSSP twice each, its memory sampled every
3 ms. What the process has before and after is what a budget has to leave to it. Appends to
records/worker_memory.jsonl.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.report.records import append_record
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory

RECORDS = Path(__file__).parent / "records" / "worker_memory.jsonl"
LIMITS = ["350MB", "430MB", "460MB", "500MB", "600MB", "800MB", "1GB", "2GB"]
HEADER = "limit      before search   most       of limit   after release   calls"


def searched(graph: og.Graph, root: int, limit: str) -> dict[str, Any]:
    """Figures of one worker."""
    done = []
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            memory_limit=limit,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        (pid,) = client.run(os.getpid).values()
        client.run(bare)
        memory = psutil.Process(pid).memory_info
        before_bytes = most_bytes = memory().rss
        over = threading.Event()

        def watch() -> None:
            nonlocal most_bytes
            while not over.wait(0.003):
                most_bytes = max(most_bytes, memory().rss)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for search in (og.bfs, og.bfs, og.sssp, og.sssp):
                search(graph, root, client=client)
                done.append(search.__name__)
        except og.errors.MemoryBudgetError as error:
            sys.stdout.write(f"{limit}: {error}\n")
        finally:
            over.set()
            thread.join()
        client.run(release)
        time.sleep(1)
        (state,) = client.scheduler_info(n_workers=-1)["workers"].values()
        return {
            "limit_bytes": state["memory_limit"],
            "before_bytes": before_bytes,
            "most_bytes": most_bytes,
            "after_bytes": memory().rss,
            "calls": done,
        }


def bare() -> None:
    """Import what searches need."""
    from ooc_graph.search import whole as search_whole  # noqa: F401, PLC0415


def release(dask_worker: Any) -> None:
    """Forget what searches keep."""
    engine_cache.release_idle(dask_worker)
    give_back_freed_memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=19)
    scale = parser.parse_args().scale
    source = og.Kronecker(scale)
    with tempfile.TemporaryDirectory() as folder:
        graph = og.build(source, Path(folder) / "g.zarr", shards=4)
        figures = [searched(graph, int(source.search_keys(1)[0]), limit) for limit in LIMITS]
    sys.stdout.write(HEADER + "\n")
    for limit, each in zip(LIMITS, figures, strict=True):
        share = each["most_bytes"] / each["limit_bytes"]
        sys.stdout.write(
            f"{limit:11}{each['before_bytes'] / 1e6:7.0f} MB      {each['most_bytes'] / 1e6:7.0f} "
            f"MB    {share:4.2f}      {each['after_bytes'] / 1e6:7.0f} MB      "
            f"{', '.join(each['calls'])}\n"
        )
    append_record(
        RECORDS,
        {"benchmark": "worker_memory", "parameters": {"scale": scale}, "figures": figures},
    )


if __name__ == "__main__":
    main()
