"""Instructions and cache misses of searches, counted by Cachegrind.

    python benchmarks/counters.py [--scale 16] [--searches 8] [--data DIR] [--folder DIR]

Needs valgrind. One thread searches Graph500's graph of the scale and, where the shared data is
there, the road network of New York; once from the first root alone and once from that many roots
more. The difference, divided by the searches, is what one search takes: starting Python, opening
the graph and compiling cancel out. Counts depend on the code and on the caches that are simulated
(32 KiB next to the core, 1 MiB behind it, lines of 64 bytes), not on how busy the machine is.
Kernels are compiled for a plain x86-64-v3 processor, which valgrind can run. Appends to
records/counters.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.report.records import append_record

RECORDS = Path(__file__).parent / "records" / "counters.jsonl"
ROAD = Path("data/dimacs9-road/USA-road-d.NY.gr.gz")
ORDER_OF = {"bfs": "hub", "sssp": "light"}
# What valgrind can run, whatever this machine has.
PROCESSOR = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
CACHES = ("--D1=32768,8,64", "--LL=1048576,16,64")
COUNTED = {
    r"I\s+refs": "instructions",
    r"D\s+refs": "data_references",
    r"D1\s+misses": "misses_32_kib",
    r"LLd\s+misses": "misses_1_mib",
}


def search(store: Path, kernel: str, roots: list[int]) -> dict[str, int]:
    """Search from each root on one thread; the graph's size, and the arcs examined in all."""
    graph = og.open(store)
    device = CpuDevice(1)
    found = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
    internal = graph.internal_of()
    arcs = 0
    for root in roots:
        tree = found.run(int(internal[root]))
        arcs += int(tree.level_arcs.sum()) if kernel == "bfs" else sum(tree.phase_arcs.values())
    device.close()
    return {"vertices": graph.rows, "arcs": graph.arcs, "examined": arcs}


def run(words: list[str], prefix: list[str]) -> str:
    """Run this file again for one search, under ``prefix``; its output and valgrind's."""
    done = subprocess.run(
        [*prefix, sys.executable, __file__, *words],
        env={**os.environ, **PROCESSOR},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def counts(words: list[str], folder: Path) -> dict[str, int]:
    """Counts of one process under Cachegrind, and what it says of its search."""
    output = run(
        words,
        [
            *("valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES),
            f"--cachegrind-out-file={folder / 'cachegrind.out'}",
        ],
    )
    found = {
        name: int(re.search(rf"{told}:\s+([\d,]+)", output)[1].replace(",", ""))  # type: ignore[index]
        for told, name in COUNTED.items()
    }
    said: dict[str, int] = json.loads(re.search(r"^\{.*\}$", output, re.MULTILINE)[0])  # type: ignore[index]
    return said | found


def of_one_search(store: Path, kernel: str, roots: list[int], folder: Path) -> dict[str, Any]:
    """Counts of one search, the mean over all roots but the first."""

    def words(some: list[int]) -> list[str]:
        return ["--search", kernel, "--store", str(store), "--roots", ",".join(map(str, some))]

    run(words(roots[:1]), [])  # kernels are compiled without valgrind, which is fifty times slower
    few, many = counts(words(roots[:1]), folder), counts(words(roots), folder)
    searches = len(roots) - 1
    counted = ("examined", *COUNTED.values())
    one = {name: (many[name] - few[name]) / searches for name in counted}
    per_arc = {f"{name}_per_arc_examined": one[name] / one["examined"] for name in COUNTED.values()}
    return {"vertices": many["vertices"], "arcs": many["arcs"]} | one | per_arc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--searches", type=int, default=8)
    parser.add_argument("--data", type=Path, default=None, help="shared graphs")
    parser.add_argument("--folder", type=Path, default=None)
    for name in ("--search", "--store", "--roots"):  # how this file calls itself
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        roots = [int(root) for root in options.roots.split(",")]
        print(json.dumps(search(Path(options.store), options.search, roots)))
        return
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    data = options.data or Path(__file__).resolve().parents[2] / "shared"
    source = og.Kronecker(options.scale)
    graphs: list[tuple[str, Any, list[int]]] = [
        (f"Kronecker {options.scale}", source, source.search_keys(options.searches + 1).tolist())
    ]
    if (data / ROAD).exists():
        roots = [1 + 26_434 * k for k in range(min(options.searches, 9) + 1)]
        graphs.append(("road NY", data / ROAD, roots))
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="counters-benchmark-") as scratch:
        for number, (name, edges, roots) in enumerate(graphs):
            store = Path(scratch) / f"{number}.zarr"
            og.build(edges, store)
            for kernel in ORDER_OF:
                figures = of_one_search(store, kernel, roots, Path(scratch))
                shown = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
                print(f"{name} {kernel}: {shown}", flush=True)
                parameters = {"graph": name, "kernel": kernel, "searches": len(roots) - 1}
                append_record(
                    RECORDS, {"benchmark": "counters", "parameters": parameters, "figures": figures}
                )


if __name__ == "__main__":
    main()
