"""Build rate on one CUDA device: Kronecker edges to a committed store.

    python benchmarks/gpu_build.py [--scales 20,22,24] [--kinds unweighted,weighted] [--repeats 3]
        [--cpu-scales 22] [--folder DIR]
    python benchmarks/gpu_build.py --out-of-core 24 [--device-memory 2GiB] [--kinds weighted]
        [--repeats 1] [--passes]
    python benchmarks/gpu_build.py --limits 1GiB,2GiB [--scales 24,26] [--kinds unweighted]

Everything is in the time: generating (once for each pass), degrees, renumbering, sorting, writing,
hashing, fsync, manifest. Kernels are compiled before. At the scales of ``--cpu-scales`` the CPU
builds the same store with all cores, and both must have the same manifest. What the disk takes is
measured beside it: chunks of the same size, written by as many threads without hashing. Appends to
records/gpu_build.jsonl.

``--out-of-core`` builds edges that lie in files, with little device memory, in sorted runs and
otherwise (`gpu_build_runs.py`). ``--limits`` builds generated edges within each of some limits, and
shows how much of the device each build stood at; all must make the same store.
"""

from __future__ import annotations

import os
import shutil
import statistics
from functools import partial
from pathlib import Path
from typing import Any

from gpu_build_runs import disk_rates, summary, way_of_building, write_columns
from harness.device import DevicePeak, DeviceProgram, free_memory
from harness.files import drop_from_cache
from harness.program import scales_of, words
from harness.tables import show
from harness.timing import sampled, timed

from ooc_graph import Kronecker
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.sizes import parse_bytes
from ooc_graph.runtime.machine import cores
from ooc_graph.runtime.workplace import Here
from ooc_graph.shards.build import build
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_on_device
from ooc_graph.types import NoProgress

WARM_SCALE = 12
WARM_RUNS_SCALE, WARM_RUNS_BYTES = 16, 16 << 20


def built(
    source: EdgeSource, out: Path, *, on_device: bool, memory_bytes: int | None = None
) -> BuildReport:
    """Build once."""
    function: Any = build
    if on_device:
        function = partial(build_on_device, device_memory_bytes=memory_bytes)
    with Here().workforce() as workforce:
        report: BuildReport = function(
            source,
            out,
            options=BuildOptions(overwrite=True),
            workforce=workforce,
            progress=NoProgress(),
        )
    return report


def figures(
    source: EdgeSource, folder: Path, *, on_device: bool, memory_bytes: int | None = None
) -> dict[str, Any]:
    """Build once; what it took."""
    free_memory()
    shutil.rmtree(folder / "graph.zarr", ignore_errors=True)
    os.sync()
    out = folder / "graph.zarr"
    device = DevicePeak()
    with sampled(device.look, 0.002):
        elapsed_s, _, report = timed(
            partial(built, source, out, on_device=on_device, memory_bytes=memory_bytes)
        )
    assert report.manifest is not None
    return {
        "elapsed_s": elapsed_s,
        "edges_per_s": report.edges / elapsed_s,
        "stages": {name: round(stop - start, 4) for name, start, stop in report.stages},
        "generation_s": report.read_s,
        "arcs": report.arcs,
        "run_bytes": report.run_bytes,
        "store_bytes": sum(entry.size for entry in report.manifest.files.values()),
        "device_peak_bytes": device.bytes,
        "manifest_sha256": report.manifest.sha256,
    }


def parameters_of(source: Kronecker) -> dict[str, Any]:
    return {"scale": source.scale, "edge_factor": 16, "weighted": source.weighted}


def require_same(runs: list[dict[str, Any]]) -> None:
    """End where stores differ."""
    if len({run["manifest_sha256"] for run in runs if "refused" not in run}) > 1:
        raise SystemExit("the stores differ")


def report_runs(
    program: DeviceProgram, source: Kronecker, runs: list[dict[str, Any]], place: str, disk: float
) -> None:
    median = statistics.median(run["elapsed_s"] for run in runs)
    found = {
        "median_s": median,
        "median_edges_per_s": source.edges / median,
        "store_bytes_per_s": runs[0]["store_bytes"] / median,
        "runs": runs,
    }
    parameters = {**parameters_of(source), "place": place, "threads": cores()}
    program.record(parameters, found, disk_bytes_per_s=disk)


def at_scales(program: DeviceProgram, sources: list[Kronecker], folder: Path) -> None:
    """Build with all of the device, and by the CPU where wanted."""
    repeats, by_cpu = program.options.repeats, program.options.cpu_scales
    disk = disk_rates(folder)["write_bytes_per_s"]
    for weighted in sorted({source.weighted for source in sources}):
        for on_device in (True, False) if by_cpu else (True,):
            figures(Kronecker(WARM_SCALE, weighted=weighted), folder, on_device=on_device)
    for source in sources:
        runs = [figures(source, folder, on_device=True) for _ in range(repeats)]
        report_runs(program, source, runs, "device", disk)
        if source.scale in by_cpu:
            runs.append(figures(source, folder, on_device=False))
            report_runs(program, source, runs[-1:], "cpu", disk)
        require_same(runs)


def within_limits(program: DeviceProgram, source: Kronecker, folder: Path) -> None:
    """Build within each limit, and without one; what each took of the device."""
    runs: dict[int, dict[str, Any]] = {}
    for limit in (0, *map(parse_bytes, program.options.limits)):
        try:
            runs[limit] = figures(source, folder, on_device=True, memory_bytes=limit or None)
        except MemoryBudgetError as refused:
            runs[limit] = {"refused": str(refused)}
    program.record(parameters_of(source), {"runs": runs}, "gpu_build_limits")
    show("limits", runs)
    require_same(list(runs.values()))


def out_of_core(program: DeviceProgram, kronecker: Kronecker, folder: Path) -> None:
    """Edges out of files, by several ways; they must make the same store."""
    options = program.options
    memory_bytes = parse_bytes(options.device_memory)
    rates = disk_rates(folder)
    edges = folder / "edges"
    source = write_columns(kronecker, edges)
    warm = write_columns(Kronecker(WARM_RUNS_SCALE, weighted=kronecker.weighted), folder / "warm")
    figures(warm, folder, on_device=True, memory_bytes=WARM_RUNS_BYTES)
    ways = ["ample", "runs", *(["passes"] if options.passes else [])]
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for way in ways * options.repeats:
        way_of_building(way)
        drop_from_cache(edges.iterdir())
        limit = None if way == "ample" else memory_bytes
        runs[way].append(figures(source, folder, on_device=True, memory_bytes=limit))
    for left in (edges, folder / "warm", folder / "graph.zarr"):
        shutil.rmtree(left)
    parameters = {
        **parameters_of(kronecker),
        "place": "device",
        "threads": cores(),
        "out_of_core": True,
        "device_memory_bytes": memory_bytes,
    }
    program.record(parameters, {**summary(runs, source, rates), "runs": runs})
    require_same([run for found in runs.values() for run in found])
    if not all(run["run_bytes"] for run in runs["runs"]):
        raise SystemExit("the plan made no runs: give less device memory")


def main() -> None:
    program = DeviceProgram(
        "gpu_build", __doc__, scales="20,22,24", kinds="unweighted,weighted", repeats=3,
        folder=None,
    )  # fmt: skip
    program.add("--cpu-scales", type=scales_of, default="")
    program.add("--out-of-core", type=int, metavar="SCALE")
    program.add("--device-memory", default="2GiB", help="for --out-of-core")
    program.add("--passes", action="store_true", help="of --out-of-core, also by passes")
    program.add("--limits", type=words, help="bytes of the device, for builds of generated edges")
    options = program.parse()
    scales = options.scales if options.out_of_core is None else [options.out_of_core]
    sources = [
        Kronecker(scale, weighted=kind == "weighted") for kind in options.kinds for scale in scales
    ]
    with program.scratch() as folder:
        if options.out_of_core is None and options.limits is None:
            at_scales(program, sources, folder)
            return
        measure = within_limits if options.out_of_core is None else out_of_core
        for source in sources:
            measure(program, source, folder)


if __name__ == "__main__":
    main()
