"""Instructions and cache misses of searches, counted by Cachegrind.

    python benchmarks/counters.py [--scale 16] [--searches 8] [--data DIR] [--folder DIR]

Needs valgrind. One thread searches Graph500's graph of the scale and, if the shared data is there,
the roads of New York; from the first root alone, and from that many more: the difference counts.
Caches are simulated (32 KiB next to the core, 1 MiB behind it, lines of 64 bytes). Kernels are
compiled for a plain x86-64-v3 processor, which valgrind can run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness.files import in_own_process
from harness.graphs import ROAD_NY, data_folder
from harness.program import KERNELS, Program
from harness.timing import arcs_of

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import ORDER_OF

# What valgrind can run, whatever this machine has.
PROCESSOR = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
CACHES = ("--D1=32768,8,64", "--LL=1048576,16,64")
COUNTED = {
    "instructions": ["Ir"],
    "data_references": ["Dr", "Dw"],
    "misses_32_kib": ["D1mr", "D1mw"],
    "misses_1_mib": ["DLmr", "DLmw"],
}
"""Figures, and the events of Cachegrind that they are sums of."""


def search(store: Path, kernel: str, roots: list[int]) -> dict[str, int]:
    """Search from each root on one thread; the graph's size, and the arcs examined in all."""
    graph = og.open(store)
    device = CpuDevice(1)
    found = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
    internal = graph.internal_of()
    arcs = sum(arcs_of(found.run(int(internal[root]))) for root in roots)
    device.close()
    return {"vertices": graph.rows, "arcs": graph.arcs, "examined": arcs}


def counts(store: Path, kernel: str, roots: list[int], folder: Path) -> dict[str, int]:
    """What one process says of its search, and counts of it, by Cachegrind."""
    out = folder / "cachegrind.out"
    command = "valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES
    prefix = *command, "--quiet", f"--cachegrind-out-file={out}"
    how: dict[str, Any] = {"environment": PROCESSOR, "prefix": prefix}
    said: dict[str, int] = in_own_process(search, store, kernel, roots, **how)
    lines = dict(line.split(":", 1) for line in out.read_text().splitlines() if ":" in line)
    found = dict(zip(lines["events"].split(), map(int, lines["summary"].split()), strict=True))
    return said | {name: sum(found[one] for one in events) for name, events in COUNTED.items()}


def of_one_search(store: Path, kernel: str, roots: list[int], folder: Path) -> dict[str, Any]:
    """Counts of one search, the mean over all roots but the first."""
    # Kernels are compiled without valgrind, which is fifty times slower.
    in_own_process(search, store, kernel, roots[:1], environment=PROCESSOR)
    few, many = (counts(store, kernel, some, folder) for some in (roots[:1], roots))
    one = {name: (many[name] - few[name]) / (len(roots) - 1) for name in ("examined", *COUNTED)}
    per_arc = {f"{name}_per_arc_examined": one[name] / one["examined"] for name in COUNTED}
    return {"vertices": many["vertices"], "arcs": many["arcs"]} | one | per_arc


def main() -> None:
    program = Program("counters", __doc__, scale=16, searches=8, data=data_folder(), folder=None)
    options = program.parse()
    if shutil.which("valgrind") is None:
        program.parser.error("valgrind is not installed")
    source = og.Kronecker(options.scale)
    keys = source.search_keys(options.searches + 1).tolist()
    graphs: list[tuple[str, Any, list[int]]] = [(f"Kronecker {options.scale}", source, keys)]
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
