"""Road networks: BFS and SSSP on one CUDA device beside the same searches on this machine's CPU.

    python benchmarks/gpu_roads.py [--kernels bfs,sssp] [--searches 16] [--data DIR]

Every road network of the reference data that has no negative weights, as its file gives it. Both
sides have the same rows and take the roots in turn: the device, the CPU on two threads and on all
cores. Answers are compared byte for byte. Times are of the searches alone, until parents and levels
or distances stand in the device's memory, or in the host's; bringing the device's to the host is in
the record too.
"""

import statistics
from collections import defaultdict
from typing import Any

from harness.device import DeviceProgram
from harness.graphs import ROAD_BAY, ROAD_NY, ROAD_ROME, data_folder, random_roots, read_columns
from harness.program import KERNELS
from harness.timing import alternate, medians

import ooc_graph as og
from ooc_graph.kernels.common.dealt import hub_rows, light_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.threads import cores
from ooc_graph.types import Shard

FILES = {
    "New York": ROAD_NY,
    "San Francisco Bay (no weights)": ROAD_BAY,
    "Rome": ROAD_ROME,
    "Washington DC, first cost": "biobjective-road/DC-cost1.gr.gz",
    "Washington DC, second cost": "biobjective-road/DC-cost2.gr.gz",
}
FEW_THREADS = 2
RANDOM_STATE = 11
GPU = "GPU"


def on_device(shard: Shard, kernel: str) -> Any:
    """The device's search; integer weights stay what they are."""
    if kernel == "bfs":
        return CudaBfsSearch(*hub_rows(shard), count_arcs=False)
    return CudaSsspSearch(*light_rows(shard), shard.tuples)


def compare(shard: Shard, kernel: str, cpus: dict[str, CpuDevice], searches: int) -> dict[str, Any]:
    sides = {name: getattr(cpu, kernel)(shard) for name, cpu in cpus.items()}
    sides[GPU] = on_device(shard, kernel)
    whole: dict[str, list[float]] = defaultdict(list)
    roots = random_roots(len(shard.tuples), searches, RANDOM_STATE)
    times = alternate(sides, roots, lambda name, _, whole_s: whole[name].append(whole_s))
    median = medians(times)
    return {
        "times_s": times,
        "gpu_and_copy_s": whole[GPU],
        "median_s": median,
        "gpu_and_copy_median_s": statistics.median(whole[GPU]),
        "gpu_is_faster_by": {n: s / median[GPU] for n, s in median.items() if n != GPU},
    }


def main() -> None:
    program = DeviceProgram("gpu_roads", __doc__, kernels=KERNELS, searches=16, data=data_folder())
    options = program.parse()
    threads = sorted({min(FEW_THREADS, cores()), cores()})
    cpus = {f"CPU, {count} threads": CpuDevice(count) for count in threads}
    for name, file in FILES.items():
        source = og.open_source(options.data / file)
        graph: Any = og.from_edges(*read_columns(source), directed=source.directed)
        for kernel in options.kernels:
            if kernel == "sssp" and not graph.weighted:
                continue
            shard = graph.load(ORDER_OF[kernel])
            rows, _ = hub_rows(shard) if kernel == "bfs" else light_rows(shard)
            weights = str(rows.weights.dtype) if kernel == "sssp" else None
            parameters = {"kernel": kernel, "graph": name, "file": file, "weights": weights}
            parameters |= {"rows": len(shard.tuples), "arcs": len(rows.neighbors)}
            program.flat_record(parameters, compare(shard, kernel, cpus, options.searches))
    for cpu in cpus.values():
        cpu.close()


if __name__ == "__main__":
    main()
