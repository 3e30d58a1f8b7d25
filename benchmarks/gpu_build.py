"""Build rate on one CUDA device: Kronecker edges to a committed store.

    python benchmarks/gpu_build.py [--scales 20,22,24] [--kinds unweighted,weighted] [--repeats 3]
        [--cpu-scales 22] [--folder DIR]
    python benchmarks/gpu_build.py --out-of-core 24 [--device-memory 2GiB] [--kinds weighted]
        [--repeats 1]
    python benchmarks/gpu_build.py --limits 1GiB,2GiB [--scales 24,26] [--kinds unweighted]

Everything is in the time: generating (once for each pass), degrees, renumbering, sorting, writing,
hashing, fsync, manifest. Kernels are compiled before. At the scales of ``--cpu-scales`` the CPU
builds the same store with all cores. What the disk takes is measured beside it: chunks of the same
size, written by as many threads without hashing. Builds of the same edges must make the same store.

``--out-of-core`` writes the edges once, as columns of 8 bytes, as a build stages its input, and
builds them with all of the device's memory (``ample``) and with little of it, in sorted runs
(``runs``), the files dropped from the page cache before each build. ``--limits`` builds generated
edges within each of some limits.
"""

import os
import shutil
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness.device import DevicePeak, DeviceProgram, free_memory
from harness.files import bytes_per_s, drop_from_cache, read_through
from harness.program import scales_of, words
from harness.timing import sampled, timed

from ooc_graph import Kronecker
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.blocks import BlockWriter, byte_view
from ooc_graph.layout.checkpoints import NoCheckpoints
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.model.resources import parse_bytes
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.shards.build import build
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_into
from ooc_graph.shards.staged import StagedSource, stage_unit
from ooc_graph.threads import cores
from ooc_graph.types import NoProgress

WARM_SCALE = 12
DISK_BYTES = 4 << 30
UNIT_EDGES = 1 << 22
WARM_RUNS_SCALE, WARM_RUNS_BYTES = 16, 16 << 20


def built(
    source: EdgeSource, out: Path, *, on_device: bool = True, memory_bytes: int | None = None
) -> BuildReport:
    given: dict[str, Any] = {"options": BuildOptions(overwrite=True), "progress": NoProgress()}
    with ThisProcess().workforce() as workforce:
        if not on_device:
            return build(source, out, workforce=workforce, **given)
        with partial_store(out, "graph", overwrite=True) as partial:
            given["device_memory_bytes"] = memory_bytes
            return build_into(partial, source, workforce=workforce, **given)


def figures(source: EdgeSource, folder: Path, **where: Any) -> dict[str, Any]:
    out = folder / "graph.zarr"
    free_memory()
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    device = DevicePeak()
    with sampled(device.look, 0.002):
        elapsed_s, _, report = timed(partial(built, source, out, **where))
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


@dataclass(frozen=True)
class EdgeColumns(StagedSource):
    """Columns on the disk that say what they are."""

    def describe(self) -> dict[str, Any]:
        return {"format": "columns", "edges": self.edges}


def write_columns(kronecker: Kronecker, folder: Path) -> EdgeColumns:
    """All edges in files of a folder, which is made."""
    folder.mkdir()
    units = kronecker.units(UNIT_EDGES)
    with ThreadPoolExecutor(cores()) as pool:
        where = NoCheckpoints(folder)
        parts = list(pool.map(lambda unit: stage_unit(kronecker, unit, where), units))
    return EdgeColumns(False, None, tuple(parts), kronecker.weight_dtype, kronecker.id_range)


def disk_rates(folder: Path) -> dict[str, float]:
    """Bytes per second that threads write as a build writes its chunks, read back, and do both."""
    data = byte_view(np.random.default_rng(1).integers(0, 256, CHUNK_BYTES, np.uint8))
    paths = [folder / f"{number}.chunk" for number in range(DISK_BYTES // CHUNK_BYTES)]
    others = [folder / f"{number}.other" for number in range(len(paths))]

    def write(path: Path) -> int:
        with BlockWriter(path) as writer:
            writer.write(data)
        return CHUNK_BYTES

    pairs = zip(paths, others, strict=True)
    steps = {
        "write": [partial(write, path) for path in paths],
        "read": [partial(read_through, path) for path in paths],
        "both": [one for a, b in pairs for one in (partial(read_through, a), partial(write, b))],
    }
    rates = {}
    for name, calls in steps.items():
        rates[f"{name}_bytes_per_s"] = bytes_per_s(calls, cores())
        drop_from_cache(folder.iterdir())
    for path in folder.iterdir():
        path.unlink()
    return rates


def summary(
    runs: dict[str, list[dict[str, Any]]], source: EdgeColumns, rates: dict[str, float]
) -> dict[str, Any]:
    """Medians by way, and of runs what share of the disk's own rate they reach.

    Of the disk: edges read once (the second time they come from the page cache), runs written, then
    these read and the store written.
    """
    median = {way: statistics.median(one["elapsed_s"] for one in runs[way]) for way in runs}
    best = min(runs["runs"], key=lambda run: abs(run["elapsed_s"] - median["runs"]))
    run_bytes, store_bytes = best["run_bytes"], best["store_bytes"]
    input_bytes = source.edges * 8 * (2 + source.weighted)
    disk_s = input_bytes / rates["read_bytes_per_s"] + run_bytes / rates["write_bytes_per_s"]
    disk_s += (run_bytes + store_bytes) / rates["both_bytes_per_s"]
    return {
        "median_s": median,
        "run_bytes_written": run_bytes,
        "run_bytes_read": run_bytes,
        "input_bytes": input_bytes,
        "store_bytes": store_bytes,
        "runs_written_bytes_per_s": run_bytes / best["stages"]["runs"],
        "rows_bytes_per_s": (run_bytes + store_bytes) / best["stages"]["rows"],
        "disk": rates,
        "disk_s": disk_s,
        "share_of_disk": disk_s / best["elapsed_s"],
    }


def parameters_of(source: Kronecker) -> dict[str, Any]:
    return {"scale": source.scale, "edge_factor": 16, "weighted": source.weighted}


def require_same(runs: list[dict[str, Any]]) -> None:
    """End where stores differ."""
    if len({run["manifest_sha256"] for run in runs if "refused" not in run}) > 1:
        raise SystemExit("the stores differ")


def at_scales(program: DeviceProgram, sources: list[Kronecker], folder: Path) -> None:
    """Build with all of the device, and by the CPU where wanted."""
    repeats, by_cpu = program.options.repeats, program.options.cpu_scales
    disk = disk_rates(folder)["write_bytes_per_s"]
    for weighted in sorted({source.weighted for source in sources}):
        for on_device in (True, False) if by_cpu else (True,):
            figures(Kronecker(WARM_SCALE, weighted=weighted), folder, on_device=on_device)
    for source in sources:
        runs: list[dict[str, Any]] = []
        for place in ("device", "cpu")[: 1 + (source.scale in by_cpu)]:
            count, on_device = (repeats, True) if place == "device" else (1, False)
            found = [figures(source, folder, on_device=on_device) for _ in range(count)]
            median = statistics.median(run["elapsed_s"] for run in found)
            parameters = {**parameters_of(source), "place": place, "threads": cores()}
            told = {"median_s": median, "median_edges_per_s": source.edges / median, "runs": found}
            told["store_bytes_per_s"] = found[0]["store_bytes"] / median
            program.record(parameters, told, disk_bytes_per_s=disk)
            runs += found
        require_same(runs)


def within_limits(program: DeviceProgram, source: Kronecker, folder: Path) -> None:
    """Build within each limit, and without one; what each took of the device."""
    runs: dict[int, dict[str, Any]] = {}
    for limit in (0, *map(parse_bytes, program.options.limits)):
        try:
            runs[limit] = figures(source, folder, memory_bytes=limit or None)
        except MemoryBudgetError as refused:
            runs[limit] = {"refused": str(refused)}
    program.record(parameters_of(source), {"runs": runs}, "gpu_build_limits")
    require_same(list(runs.values()))


def out_of_core(program: DeviceProgram, kronecker: Kronecker, folder: Path) -> None:
    """Edges out of files, with much and with little memory; they must make the same store."""
    memory_bytes = parse_bytes(program.options.device_memory)
    rates, edges = disk_rates(folder), folder / "edges"
    source = write_columns(kronecker, edges)
    warm = write_columns(Kronecker(WARM_RUNS_SCALE, weighted=kronecker.weighted), folder / "warm")
    figures(warm, folder, memory_bytes=WARM_RUNS_BYTES)
    limits = {"ample": None, "runs": memory_bytes}
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in limits}
    for way in [*limits] * program.options.repeats:
        drop_from_cache(edges.iterdir())
        runs[way].append(figures(source, folder, memory_bytes=limits[way]))
    parameters = {**parameters_of(kronecker), "place": "device", "threads": cores()}
    parameters |= {"out_of_core": True, "device_memory_bytes": memory_bytes}
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
    program.add("--limits", type=words, help="bytes of the device, for builds of generated edges")
    options = program.parse()
    scales = options.scales if options.out_of_core is None else [options.out_of_core]
    kinds = [{"weighted": kind == "weighted"} for kind in options.kinds]
    sources = [Kronecker(scale, **kind) for kind in kinds for scale in scales]
    if options.out_of_core is None and options.limits is None:
        with program.scratch() as folder:
            at_scales(program, sources, folder)
        return
    measure = within_limits if options.out_of_core is None else out_of_core
    for source in sources:
        with program.scratch() as folder:
            measure(program, source, folder)


if __name__ == "__main__":
    main()
