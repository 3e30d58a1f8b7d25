"""The least memory of a run of Graph500 by one process on the CPU, before anything is built."""

from __future__ import annotations

from math import comb, exp, sqrt

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.graph500.batches import least_check_bytes
from ooc_graph.graph500.run import Graph500Options
from ooc_graph.layout.names import id_dtype
from ooc_graph.memory.cpu.plan import Facts, least_bytes
from ooc_graph.memory.heads import Lengths
from ooc_graph.shards.plan import LEAST_SLOT_BYTES, RENUMBER_BYTES, RESERVE_BYTES
from ooc_graph.types import IntArray

# Graph500's initiator: the chance that a bit of an end is 0, and that it is in both ends, or 1.
_ZERO, _ONE, _BOTH_ZERO, _BOTH_ONE = 0.76, 0.24, 0.57, 0.05
# Distances in a row of the same scale from its mean, beyond which none was or will be seen.
_DEVIATIONS = 8
_WEIGHT_BYTES, _MEASURE_BYTES = 4, 4
_MOST_SHARDS = 64


def expected_rows(source: Kronecker) -> int:
    """Vertices with an arc: more than there are, by less than one in a hundred from scale 18 on.

    A vertex whose id has k bits of 1 is an end of an edge with the same chance as every other one.
    """
    vertices, mean, variance = 1 << source.scale, 0.0, 0.0
    edges = source.edge_factor * vertices
    for ones in range(source.scale + 1):
        zeros = source.scale - ones
        end, loop = _ZERO**zeros * _ONE**ones, _BOTH_ZERO**zeros * _BOTH_ONE**ones
        isolated = exp(-2 * edges * (end - loop))
        mean += comb(source.scale, ones) * (1 - isolated)
        variance += comb(source.scale, ones) * isolated * (1 - isolated)
    return min(vertices, int(mean + _DEVIATIONS * sqrt(variance)) + 1)


def least_by_part(source: Kronecker, options: Graph500Options) -> dict[str, int]:
    """Bytes that each part of a run needs at least; parts follow each other."""
    vertices = 1 << source.scale
    parts = {"build": RENUMBER_BYTES * vertices + RESERVE_BYTES + LEAST_SLOT_BYTES}
    for kernel in options.kernels:
        parts[f"{kernel} search"] = least_bytes(_facts(source, kernel, packed=options.compress))
        if options.validate:
            parts[f"{kernel} validation"] = least_check_bytes(vertices, kernel)
    return parts


def describe(source: Kronecker, options: Graph500Options, limit_bytes: int) -> dict[str, int | str]:
    """The least of each part and of all, as a table of names and numbers."""
    parts = least_by_part(source, options)
    least = max(parts.values())
    return {
        "kernel": "graph500",
        "scale": source.scale,
        "budget": limit_bytes,
        **{f"least bytes: {name}": size for name, size in parts.items()},
        "least bytes: in all": least,
        "fits": "yes" if least <= limit_bytes else "no",
    }


def require_budget(source: Kronecker, options: Graph500Options, limit_bytes: int) -> None:
    """Refuse a limit that some part of a run cannot keep, with a MemoryBudgetError."""
    parts = least_by_part(source, options)
    part = max(parts, key=lambda name: parts[name])
    if parts[part] > limit_bytes:
        raise MemoryBudgetError(
            f"graph500 of scale {source.scale} needs at least {parts[part]:,} bytes in one process "
            f"(for {part}), which may use {limit_bytes:,}; raise --memory-limit"
        )


def _facts(source: Kronecker, kernel: str, *, packed: bool) -> Facts:
    """What a plan depends on, of rows that are all of the same length."""
    vertices, rows = 1 << source.scale, expected_rows(source)
    arcs = 2 * source.edge_factor * vertices
    id_bytes = id_dtype(rows).itemsize
    length: IntArray = np.array([-(-arcs // rows)], np.int64)
    side = Lengths(length, np.array([rows], np.int64))
    weight_bytes = _WEIGHT_BYTES if kernel == "sssp" else 0
    tables = id_bytes * vertices + 8 * rows
    given = vertices, rows, _MOST_SHARDS, id_bytes, weight_bytes, _MEASURE_BYTES, tables, (side,)
    return Facts(kernel, *given, packed_bits=8 * id_bytes if packed else 0)
