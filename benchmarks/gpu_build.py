"""Build rate on one CUDA device: Kronecker edges to a committed store.

    python benchmarks/gpu_build.py [--scales 20,22,24] [--kinds unweighted,weighted] [--repeats 3]
        [--cpu-scales 22] [--folder DIR]

Everything is in the time: generating (once for each pass), degrees, renumbering, sorting, writing,
hashing, fsync, manifest. Kernels are compiled before. At the scales of ``--cpu-scales`` the CPU
builds the same store with all cores, and both must have the same manifest. What the disk takes is
measured beside it: chunks of the same size, written by as many threads without hashing. Appends to
records/gpu_build.jsonl.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import cupy
import numpy as np
from gpu_graphs import device_facts

from ooc_graph import Kronecker
from ooc_graph.layout.blocks import BlockWriter, byte_view
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.report.records import append_record
from ooc_graph.session.machine import cores
from ooc_graph.session.place import Here
from ooc_graph.shards.build import BuildOptions, BuildReport, build
from ooc_graph.shards.cuda_build import build_on_device
from ooc_graph.types import NoProgress

RECORDS = Path(__file__).parent / "records" / "gpu_build.jsonl"
WARM_SCALE = 12
DISK_BYTES = 4 << 30


def built(source: Kronecker, out: Path, *, on_device: bool) -> BuildReport:
    """Build once."""
    function: Any = build_on_device if on_device else build
    with Here().workforce() as workforce:
        report: BuildReport = function(
            source,
            out,
            options=BuildOptions(overwrite=True),
            workforce=workforce,
            progress=NoProgress(),
        )
    return report


def figures(source: Kronecker, folder: Path, *, on_device: bool) -> dict[str, Any]:
    """Build once; what it took."""
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    shutil.rmtree(folder / "graph.zarr", ignore_errors=True)
    os.sync()
    begun = perf_counter()
    report = built(source, folder / "graph.zarr", on_device=on_device)
    elapsed_s = perf_counter() - begun
    assert report.manifest is not None
    return {
        "elapsed_s": elapsed_s,
        "edges_per_s": report.edges / elapsed_s,
        "stages": {name: round(stop - start, 4) for name, start, stop in report.stages},
        "generation_s": report.read_s,
        "arcs": report.arcs,
        "store_bytes": sum(entry.size for entry in report.manifest.files.values()),
        "device_pool_bytes": pool.total_bytes(),
        "manifest_sha256": report.manifest.sha256,
    }


def disk_bytes_per_s(folder: Path) -> float:
    """What threads write as a build writes its chunks, without hashing them."""
    data = byte_view(np.random.default_rng(1).integers(0, 256, CHUNK_BYTES, np.uint8))
    paths = [folder / f"{number}.chunk" for number in range(DISK_BYTES // CHUNK_BYTES)]

    def write(path: Path) -> None:
        with BlockWriter(path) as writer:
            writer.write(data)

    begun = perf_counter()
    with ThreadPoolExecutor(cores()) as executor:
        for _ in executor.map(write, paths):
            pass
    elapsed_s = perf_counter() - begun
    for path in paths:
        path.unlink()
    return DISK_BYTES / elapsed_s


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", default="20,22,24")
    parser.add_argument("--kinds", default="unweighted,weighted")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu-scales", default="")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    by_cpu = {int(scale) for scale in options.cpu_scales.split(",") if scale}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="build-benchmark-") as scratch:
        folder = Path(scratch)
        disk = disk_bytes_per_s(folder)
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
