"""Bits an arc, and decoding speed, of neighbours in fewer bits.

    python benchmarks/packing.py GRAPH.zarr... [--repeats 7]

For each row order of a store, of all its out-neighbours, on one thread: ``raw``, as stored, whose
speed is that of a copy, and ``packed``, ceil(log2 rows) bits each, by the package's own loops, in
units of 64 KiB of numbers. What is decoded is compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from harness.program import Program
from harness.timing import rates

import ooc_graph as og
from ooc_graph.layout.names import LIGHT, SIDECAR_BYTES, rows_path
from ooc_graph.layout.packed_loops import pack, unpack
from ooc_graph.types import AnyArray

MOST_ARCS = 1 << 24
"""Arcs that are looked at."""


def part_of(graph: og.Graph, order: str) -> AnyArray:
    """Neighbours of the first shard's rows, or 16 parts of them, evenly over all."""
    neighbors = graph.stored.read(f"{rows_path(0, 'out', order)}/neighbors")
    if len(neighbors) <= MOST_ARCS:
        return neighbors
    begins = np.arange(16) * (len(neighbors) // 16)
    return np.concatenate([neighbors[begin : begin + MOST_ARCS // 16] for begin in begins])


def packed(neighbors: AnyArray, rows: int) -> tuple[Any, float]:
    unit, bits = SIDECAR_BYTES // neighbors.dtype.itemsize, max(1, (rows - 1).bit_length())
    padded = np.zeros(-(-len(neighbors) // unit) * unit, neighbors.dtype)
    padded[: len(neighbors)] = neighbors
    values = padded.reshape(-1, 64, unit // 64)
    words = np.empty((len(values), bits, unit // 64), np.uint64)
    none, mask = np.uint64(0), np.uint64((1 << bits) - 1)
    pack(values, none, ~none, words)
    found = np.empty_like(values)

    def decode() -> AnyArray:
        unpack(words, none, mask, found)
        return found.reshape(-1)[: len(neighbors)]

    return decode, bits


def measure(program: Program, path: Path, repeats: int) -> None:
    """Measure all ways on a store's row orders."""
    graph = og.open(path)
    for order in graph.attributes["row_orders"]:
        neighbors = part_of(graph, order)
        copied = np.empty_like(neighbors)

        def raw(found: AnyArray = copied, given: AnyArray = neighbors) -> AnyArray:
            found[:] = given
            return found

        ways = {"raw": (raw, 32), "packed": packed(neighbors, graph.rows)}
        for name, (decode, bits) in ways.items():
            speed = rates(decode, len(neighbors), "arcs", repeats)
            if not np.array_equal(decode(), neighbors):
                raise SystemExit(f"{name}: what was decoded differs")
            parameters = {
                "graph": path.stem,
                "rows": graph.rows,
                "arcs": graph.arcs,
                "arcs_measured": len(neighbors),
                "order": order,
                "way": name,
                "repeats": repeats,
            }
            figures = {"bits_per_arc": bits, **speed}
            program.flat_record(parameters, figures, "packing: neighbours")
    if LIGHT in graph.attributes["row_orders"]:
        weights = graph.stored.read(f"{rows_path(0, 'out', LIGHT)}/weights")
        if weights.dtype.kind == "i" and len(weights):
            bits = (int(weights.max()) - int(weights.min())).bit_length()
            print(f"{path.stem:24} integer weights: {bits} of {8 * weights.dtype.itemsize} bits")


def main() -> None:
    program = Program("packing", __doc__, repeats=7)
    program.add("stores", nargs="+", type=Path)
    options = program.parse()
    for path in options.stores:
        measure(program, path, options.repeats)


if __name__ == "__main__":
    main()
