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

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from gpu_build_runs import (
    EdgeColumns,
    disk_rates,
    drop_from_cache,
    summary,
    way_of_building,
    write_columns,
)
from gpu_graphs import DeviceWatch, device_facts, free_memory

from ooc_graph import Kronecker
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.sizes import parse_bytes
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.runtime.workplace import Here
from ooc_graph.shards.build import build
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_on_device
from ooc_graph.types import NoProgress

RECORDS = Path(__file__).parent / "records" / "gpu_build.jsonl"
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
    begun = perf_counter()
    with DeviceWatch() as watch:
        out = folder / "graph.zarr"
        report = built(source, out, on_device=on_device, memory_bytes=memory_bytes)
        elapsed_s = perf_counter() - begun
    assert report.manifest is not None
    return {
        "elapsed_s": elapsed_s,
        "edges_per_s": report.edges / elapsed_s,
        "stages": {name: round(stop - start, 4) for name, start, stop in report.stages},
        "generation_s": report.read_s,
        "arcs": report.arcs,
        "run_bytes": report.run_bytes,
        "store_bytes": sum(entry.size for entry in report.manifest.files.values()),
        "device_peak_bytes": watch.peak_bytes,
        "manifest_sha256": report.manifest.sha256,
    }


def report_runs(
    source: Kronecker, runs: list[dict[str, Any]], place: str, extra: dict[str, Any]
) -> None:
    median = statistics.median(run["elapsed_s"] for run in runs)
    kind = "weighted" if source.weighted else "unweighted"
    stages = " ".join(f"{name} {took:.2f}" for name, took in runs[-1]["stages"].items())
    print(
        f"scale {source.scale} {kind:10} {place:6}: {median:7.2f} s, "
        f"{source.edges / median / 1e6:7.1f} M edges/s, "
        f"{runs[0]['store_bytes'] / median / 1e9:5.2f} GB/s to the store; last: {stages}",
        flush=True,
    )
    parameters = {"scale": source.scale, "edge_factor": 16, "weighted": source.weighted}
    append_record(
        RECORDS,
        {
            "benchmark": "gpu_build",
            "parameters": {**parameters, "place": place, "threads": cores()},
            "device": device_facts(),
            "figures": {
                "median_s": median,
                "median_edges_per_s": source.edges / median,
                "store_bytes_per_s": runs[0]["store_bytes"] / median,
                "runs": runs,
            },
            **extra,
        },
    )


def within_limits(source: Kronecker, folder: Path, limits: list[int], commit: str | None) -> None:
    """Build within each limit, and without one; what each took of the device."""
    runs: dict[int, dict[str, Any]] = {}
    for limit in (0, *limits):
        try:
            found = figures(source, folder, on_device=True, memory_bytes=limit or None)
        except MemoryBudgetError as refused:
            found = {"refused": str(refused)}
        runs[limit] = found
        said = found.get("refused") or (
            f"{found['elapsed_s']:6.2f} s, at most {found['device_peak_bytes']:,} bytes, stages "
            f"{found['stages']}"
        )
        print(
            f"scale {source.scale} weighted {source.weighted}, limit {limit:,}: {said}", flush=True
        )
    append_record(
        RECORDS,
        {
            "benchmark": "gpu_build_limits",
            "parameters": {"scale": source.scale, "edge_factor": 16, "weighted": source.weighted},
            "device": device_facts(),
            "figures": {"runs": runs},
            "source_commit": commit,
        },
    )
    if len({run["manifest_sha256"] for run in runs.values() if "refused" not in run}) > 1:
        raise SystemExit("the stores differ")


def out_of_core(
    kronecker: Kronecker,
    folder: Path,
    memory_bytes: int,
    ways: Sequence[str],
    extra: dict[str, Any],
) -> None:
    """Edges out of files, by several ways; they must make the same store."""
    rates = disk_rates(folder)
    edges = folder / "edges"
    source = write_columns(kronecker, edges)
    warm = write_columns(Kronecker(WARM_RUNS_SCALE, weighted=kronecker.weighted), folder / "warm")
    figures(warm, folder, on_device=True, memory_bytes=WARM_RUNS_BYTES)
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for way in ways:
        way_of_building(way)
        drop_from_cache(edges)
        limit = None if way == "ample" else memory_bytes
        runs[way].append(figures(source, folder, on_device=True, memory_bytes=limit))
    for left in (edges, folder / "warm", folder / "graph.zarr"):
        shutil.rmtree(left)
    report_out_of_core(kronecker, source, memory_bytes, runs, rates, extra)


def report_out_of_core(
    kronecker: Kronecker,
    source: EdgeColumns,
    memory_bytes: int,
    runs: dict[str, list[dict[str, Any]]],
    rates: dict[str, float],
    extra: dict[str, Any],
) -> None:
    found = summary(runs, source, rates)
    kind = "weighted" if kronecker.weighted else "unweighted"
    seconds = ", ".join(f"{way} {took:.2f} s" for way, took in found["median_s"].items())
    print(
        f"scale {kronecker.scale} {kind}, {memory_bytes:,} bytes of the device: {seconds}; "
        f"{found['run_bytes_written']:,} bytes to runs and back; "
        f"{found['share_of_disk']:.0%} of the disk's rate; at most "
        f"{max(run['device_peak_bytes'] for run in runs['runs']):,} bytes of the device; stages "
        f"{runs['runs'][-1]['stages']}",
        flush=True,
    )
    parameters = {"scale": kronecker.scale, "edge_factor": 16, "weighted": kronecker.weighted}
    append_record(
        RECORDS,
        {
            "benchmark": "gpu_build",
            "parameters": {
                **parameters,
                "place": "device",
                "threads": cores(),
                "out_of_core": True,
                "device_memory_bytes": memory_bytes,
            },
            "device": device_facts(),
            "figures": {**found, "runs": runs},
            **extra,
        },
    )
    if len({run["manifest_sha256"] for found in runs.values() for run in found}) > 1:
        raise SystemExit("the stores differ")
    if not all(run["run_bytes"] for run in runs["runs"]):
        raise SystemExit("the plan made no runs: give less device memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", default="20,22,24")
    parser.add_argument("--kinds", default="unweighted,weighted")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu-scales", default="")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    parser.add_argument("--out-of-core", type=int, metavar="SCALE")
    parser.add_argument("--device-memory", default="2GiB", help="for --out-of-core")
    parser.add_argument("--passes", action="store_true", help="of --out-of-core, also by passes")
    parser.add_argument("--limits", help="bytes of the device, for builds of generated edges")
    options = parser.parse_args()
    by_cpu = {int(scale) for scale in options.cpu_scales.split(",") if scale}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="build-benchmark-") as scratch:
        folder = Path(scratch)
        if options.out_of_core is not None:
            memory_bytes = parse_bytes(options.device_memory)
            for kind in options.kinds.split(","):
                kronecker = Kronecker(options.out_of_core, weighted=kind == "weighted")
                extra = {"source_commit": options.commit}
                ways = ["ample", "runs", *(["passes"] if options.passes else [])]
                out_of_core(kronecker, folder, memory_bytes, ways * options.repeats, extra)
            return
        if options.limits is not None:
            limits = [parse_bytes(limit) for limit in options.limits.split(",")]
            for kind in options.kinds.split(","):
                for scale in map(int, options.scales.split(",")):
                    source = Kronecker(scale, weighted=kind == "weighted")
                    within_limits(source, folder, limits, options.commit)
            return
        disk = disk_rates(folder)["write_bytes_per_s"]
        print(f"the disk takes {disk / 1e9:.2f} GB/s", flush=True)
        extra = {"disk_bytes_per_s": disk, "source_commit": options.commit}
        for kind in options.kinds.split(","):
            for on_device in (True, False) if by_cpu else (True,):
                figures(
                    Kronecker(WARM_SCALE, weighted=kind == "weighted"), folder, on_device=on_device
                )
            for scale in map(int, options.scales.split(",")):
                source = Kronecker(scale, weighted=kind == "weighted")
                runs = [figures(source, folder, on_device=True) for _ in range(options.repeats)]
                report_runs(source, runs, "device", extra)
                if scale in by_cpu:
                    runs.append(figures(source, folder, on_device=False))
                    report_runs(source, runs[-1:], "cpu", extra)
                if len({run["manifest_sha256"] for run in runs}) > 1:
                    raise SystemExit("the stores differ")


if __name__ == "__main__":
    main()
