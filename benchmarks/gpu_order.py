"""Searches on CUDA devices of one host as users call them: one device or all, rows there or pinned.

    python benchmarks/gpu_order.py --scales 26 --budget-gib 2 [--workers 2] [--kernels bfs,sssp]
                                   [--searches 3] [--ways gathered,left,written] [--records PATH]

A local cluster has a worker for each device. Each source is searched by one worker and by the ranks
of all, with all memory of a device and within a budget of each, so that rows are pinned in host
memory. A call is timed from asking to the answer: gathered into NumPy arrays of the client, left on
the workers, or written to a store. What the search itself takes is what its answer says. The first
search of a case loads the graph and is not timed; its answers are compared.
"""

import hashlib
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import cupy
import numpy as np
from harness.program import Program, words
from harness.timing import answer_of

import ooc_graph as og
from ooc_graph.runtime.cluster import local_cuda_cluster

WAYS = ["gathered", "left", "written"]


def cases(budget: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What tells a case from others, and the options of its searches."""
    for rows, limits in (("device", {}), ("pinned", {"device_memory": budget})):
        yield {"devices": "one", "rows": rows}, limits
        yield {"devices": "all", "rows": rows}, {**limits, "exchange": "scheduler"}


def called(search: Any, way: str, out: Path) -> tuple[float, Any]:
    """Seconds of a call, and its answer."""
    options: dict[str, Any] = {"arrays": "dask"} if way == "left" else {}
    if way == "written":
        options["out"] = out
    begun = perf_counter()
    found = search(**options)
    if way == "gathered":
        answer_of(found)  # in the order of original ids, which takes time when it is read first
    return perf_counter() - begun, found


def figures_of(search: Any, keys: list[int], ways: list[str], out: Path) -> dict[str, Any]:
    """Median seconds of the calls and of the searches; a hash of the first answer."""
    loading_s, found = called(partial(search, keys[0]), "gathered", out)
    columns = hashlib.sha256()
    for column in answer_of(found):
        columns.update(column)
    del found
    figures: dict[str, Any] = {"loading_s": loading_s, "answer_sha256": columns.hexdigest()}
    for way in ways:
        times, searched = [], []
        for key in keys[1:]:
            seconds, found = called(partial(search, key), way, out)
            times.append(seconds)
            searched.append(found.elapsed_s)
            del found
            shutil.rmtree(out, ignore_errors=True)
        figures |= {f"{way}_s": median(times), f"{way}_search_s": median(searched)}
    return figures


def main() -> None:
    program = Program("gpu_order", __doc__, scales=[24], kernels=["bfs"], searches=3, folder=None)
    program.add("--workers", type=int, default=2, help="devices, each with a worker")
    program.add("--budget-gib", type=float, default=1.0, help="GiB of a device if rows are pinned")
    program.add("--ways", type=words, default=WAYS, help="what becomes of answers")
    options = program.parse()
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    with program.scratch() as folder, local_cuda_cluster(options.workers) as client:
        for scale in options.scales:
            source = og.Kronecker(scale, weighted="sssp" in options.kernels)
            graph = og.build(source, folder / "g.zarr", shards=options.workers, device="cuda")
            # Rows are the vertices that have edges, of which Graph500 draws its keys as well.
            rows = np.random.default_rng(scale).choice(graph.rows, options.searches + 1)
            keys = graph.original_of()[rows].tolist()
            for kernel in options.kernels:
                hashes = set()
                for case, limits in cases(int(options.budget_gib * (1 << 30))):
                    kwargs = {"client": client, "device": "cuda", **limits}
                    search = partial(getattr(og, kernel), graph, **kwargs)
                    found = figures_of(search, keys, options.ways, folder / "answer.zarr")
                    hashes.add(found["answer_sha256"])
                    parameters = {"device": device, "scale": scale, "kernel": kernel, **case}
                    parameters |= program.given("workers", "budget_gib", "searches")
                    program.flat_record(parameters, found)
                if len(hashes) != 1:
                    raise SystemExit(f"{kernel}: answers differ")
            shutil.rmtree(folder / "g.zarr")


if __name__ == "__main__":
    main()
