"""BFS from many sources on one CUDA device: batches beside single searches, and beside the CPU.

    python benchmarks/gpu_many_bfs.py [--scale 20] [--sources 4096] [--stored 4096] [--threads N]

Graph500's Kronecker graph without weights, its rows on the device; sources are drawn from the
largest component. Measured are, as medians:

- ``prepare_s``: state of batches, and the trial whether they take less time than single searches;
- ``reduce_s``: counts of all sources' levels, what eccentricity, closeness and sums are made of;
- ``levels_s``: levels of ``--stored`` sources brought to page-locked memory, beside a plain copy;
- the same of ``--singly`` sources by single searches on the device, whose answers stay there, and
- of ``--cpu`` sources by the CPU's batches, after one batch that does not count.

GTEPS are input tuples by sources over time. Levels and counts are compared byte for byte with the
CPU's.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import device
from harness.device import DeviceProgram, copy_rate, free_memory, page_locked, timed
from harness.graphs import RANDOM_STATE
from harness.timing import repeated

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cpu.many.bfs_settle import SLOTS
from ooc_graph.kernels.cuda.many.bfs import CudaManyBfs
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, IntArray, Rows


def seconds(call: Callable[[], Any], repeats: int) -> list[float]:
    return [one.elapsed_s for one in repeated(call, repeats, timed)]


def singly(search: Any, sources: IntArray) -> None:
    for source in sources.tolist():
        search.run_on_device(source)


def on_cpu(
    rows: Rows, sources: IntArray, threads: int
) -> tuple[dict[str, Any], IntArray, AnyArray]:
    """Seconds of the CPU's batches, counts and levels."""
    search = CpuManyBfs(rows, rows, Team(threads))
    answer = np.zeros((len(sources), search.vertices), np.int32)
    for some in (sources[:SLOTS], sources):
        reduce_s, _, tallies = timed(lambda some=some: search.tally(some))
        levels_s, *_ = timed(lambda some=some: search.run(some, answer[: len(some)]))
    told = {"cpu_reduce_s": reduce_s, "cpu_levels_s": levels_s}
    return told | {"cpu_one_by_one": search.is_one_by_one}, tallies, answer


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    edges = Kronecker(options.scale, weighted=False)
    graph = device.build_kronecker(edges, "bfs")
    rows = graph.rows
    free_memory()
    single = device.new_search(graph, "bfs", original_parents=False)
    sources = device.connected_sources(single, options.sources)
    count = len(sources)
    few = sources[: options.singly]
    singly_s = seconds(partial(singly, single, few), options.repeats)
    del single
    free_memory()
    host = Rows(rows.offsets.get(), rows.neighbors.get())
    told, cpu_tallies, cpu_levels = on_cpu(host, sources[: options.cpu], options.threads)

    search = CudaManyBfs(rows, rows, threads=cores())
    prepare_s, *_ = timed(lambda: search.tally(sources[: 2 * SLOTS]))
    reduced = repeated(lambda: search.tally(sources), options.repeats, timed)
    if reduced[-1].result[: options.cpu].tobytes() != cpu_tallies.tobytes():
        raise SystemExit("the counts are not the CPU's")
    stored = min(options.stored or count, count)
    answer = page_locked((stored, search.vertices), np.int32)
    levels_s = seconds(lambda: search.run(sources[:stored], answer), options.repeats)
    if answer[: options.cpu].tobytes() != cpu_levels[:stored].tobytes():
        raise SystemExit("the levels are not the CPU's")
    figures = told | {
        "prepare_s": prepare_s,
        "reduce_s": [one.elapsed_s for one in reduced],
        "levels_s": levels_s,
        "singly_s": singly_s,
        "is_one_by_one": search.is_one_by_one,
        "copy_bytes_per_s": copy_rate(answer),
        "stored_bytes": answer.nbytes,
    }
    parameters = {"scale": options.scale, "edges": edges.edges, "rows": search.vertices}
    parameters |= {"arcs": len(host.neighbors), "sources": count, "stored": stored}
    parameters |= {"singly": len(few), "cpu": len(sources[: options.cpu])}
    parameters |= {"cpu_threads": options.threads, "random_state": RANDOM_STATE}
    return parameters, figures | rates(parameters, figures)


def rates(parameters: dict[str, Any], figures: dict[str, Any]) -> dict[str, Any]:
    """GTEPS of each way, and how many times faster batches are."""
    edges = parameters["edges"]
    per_source = {
        "reduce": statistics.median(figures["reduce_s"]) / parameters["sources"],
        "levels": statistics.median(figures["levels_s"]) / parameters["stored"],
        "singly": statistics.median(figures["singly_s"]) / parameters["singly"],
        "cpu_reduce": figures["cpu_reduce_s"] / parameters["cpu"],
        "cpu_levels": figures["cpu_levels_s"] / parameters["cpu"],
    }
    gteps = {f"gteps_{name}": edges / seconds / 1e9 for name, seconds in per_source.items()}
    rate = figures["stored_bytes"] / statistics.median(figures["levels_s"])
    return gteps | {
        "reduce_over_singly": per_source["singly"] / per_source["reduce"],
        "reduce_over_cpu": per_source["cpu_reduce"] / per_source["reduce"],
        "levels_over_cpu": per_source["cpu_levels"] / per_source["levels"],
        "levels_bytes_per_s": rate,
        "levels_share_of_copy": rate / figures["copy_bytes_per_s"],
    }


def main() -> None:
    program = DeviceProgram(
        "gpu_many_bfs", __doc__, scale=20, sources=4096, stored=None, threads=cores(), repeats=3
    )
    program.add("--singly", type=int, default=64, help="of them, searched one by one")
    program.add("--cpu", type=int, default=1024, help="of them, searched on the CPU")
    program.record(*measure(program.parse()))


if __name__ == "__main__":
    main()
