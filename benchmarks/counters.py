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
from pathlib import Path
from typing import Any

from harness.graphs import ROAD_NY, data_folder
from harness.program import Program
from harness.timing import arcs_of

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import ORDER_OF

KERNELS = ("bfs", "sssp")
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
    arcs = sum(arcs_of(found.run(int(internal[root]))) for root in roots)
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
    program = Program("counters", __doc__, scale=16, searches=8, data=data_folder(), folder=None)
    for name in ("--search", "--store", "--roots"):  # how this file calls itself
        program.add(name, help=argparse.SUPPRESS)
    options = program.parse()
    if options.search:
        roots = [int(root) for root in options.roots.split(",")]
        print(json.dumps(search(Path(options.store), options.search, roots)))
        return
    if shutil.which("valgrind") is None:
        program.parser.error("valgrind is not installed")
    source = og.Kronecker(options.scale)
    graphs: list[tuple[str, Any, list[int]]] = [
        (f"Kronecker {options.scale}", source, source.search_keys(options.searches + 1).tolist())
    ]
    if (options.data / ROAD_NY).exists():
        roots = [1 + 26_434 * k for k in range(min(options.searches, 9) + 1)]
        graphs.append(("road NY", options.data / ROAD_NY, roots))
    with program.scratch() as scratch:
        for number, (name, edges, roots) in enumerate(graphs):
            store = scratch / f"{number}.zarr"
            og.build(edges, store)
            for kernel in KERNELS:
                parameters = {"graph": name, "kernel": kernel, "searches": len(roots) - 1}
                program.record(parameters, of_one_search(store, kernel, roots, scratch))


if __name__ == "__main__":
    main()
