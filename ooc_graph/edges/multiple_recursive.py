"""Graph500's random generator in Python, and the search keys that it draws, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cpu.build import random_draws as kernel
from ooc_graph.kernels.cpu.build.degrees import insert_vertices, mark_touched
from ooc_graph.ranges import in_ranges
from ooc_graph.types import AnyArray, IntArray

EDGES_PER_STREAM_BITS = 64
SKIP_BITS = 192
State = tuple[int, ...]


def mrg_seed(seeds: Sequence[int]) -> State:
    """State (z1, …, z5) of the random generator that two 64-bit user seeds stand for."""
    first, second = seeds
    low = (1 << 30) - 1
    top = ((second >> 60) << 4) + (first >> 60)
    parts = (first & low, (first >> 30) & low, second & low, (second >> 30) & low, top)
    return tuple(part + 1 for part in parts)


def mrg_skip(state: State, *, high: int = 0, middle: int = 0, low: int = 0) -> State:
    """Move the random generator on by ``low + middle * 2**64 + high * 2**128`` steps."""
    steps = low + (middle << EDGES_PER_STREAM_BITS) + (high << 2 * EDGES_PER_STREAM_BITS)
    powers = _step_powers()
    for bit in range(steps.bit_length()):
        if (steps >> bit) & 1:
            state = tuple(_inner(row, state) for row in powers[bit])
    return state


def scramble_constants(seeds: Sequence[int]) -> tuple[int, int]:
    """Two 64-bit constants that the vertex scramble draws from the same generator."""
    state = mrg_skip(mrg_seed(seeds), high=50, middle=7)
    draws = [mrg_skip(state, low=step)[0] for step in range(1, 5)]
    # The reference multiplies by 2**32 - 1; a shift by 32 was probably meant.
    values = (draws[0] * 0xFFFFFFFF + draws[1], draws[2] * 0xFFFFFFFF + draws[3])
    return values[0] % 2**64, values[1] % 2**64


@cache
def edge_powers() -> NDArray[np.uint64]:
    """Matrices of 1, 2, 4, … edges, uint64 (63, 5, 5)."""
    first = EDGES_PER_STREAM_BITS
    return np.array(_step_powers()[first : first + 63], np.uint64)


@cache
def seed_arrays(seeds: tuple[int, int]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Seed state and scramble constants as the kernel wants them."""
    return np.array(mrg_seed(seeds), np.uint64), np.array(scramble_constants(seeds), np.uint64)


def _inner(row: Sequence[int], column: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(row, column, strict=True)) % kernel.MODULUS


@cache
def _step_powers() -> list[tuple[State, ...]]:
    """Matrices of 1, 2, 4, … steps of the random generator."""
    identity = [tuple(int(row == column) for column in range(5)) for row in range(4)]
    power: tuple[State, ...] = ((kernel.FIRST_FACTOR, 0, 0, 0, kernel.LAST_FACTOR), *identity)
    powers = []
    for _ in range(SKIP_BITS):
        powers.append(power)
        columns = list(zip(*power, strict=True))
        power = tuple(tuple(_inner(row, column) for column in columns) for row in power)
    return powers


BLOCK_EDGES = 1 << 17

Degree = Callable[[IntArray], AnyArray] | AnyArray


def choose_keys(graph: Any, count: int, degree: Degree | None, threads: int) -> IntArray:
    """Keys of a `ooc_graph.edges.kronecker.Kronecker`, as its `search_keys` says."""
    if count < 1:
        raise UsageError(f"count is {count}: give at least 1")
    roots, keys, drawn = _root_draws(graph), list[int](), 0
    while len(keys) < count:
        batch = np.fromiter(islice(roots, 16 * count), np.int64)
        forced = np.arange(drawn + 1, drawn + 1 + len(batch)) > graph.vertices
        usable = forced.copy()
        usable[~forced] = _touched(graph, batch[~forced], degree, threads)
        drawn += len(batch)
        for root, take, anyway in zip(batch.tolist(), usable, forced, strict=True):
            if len(keys) < count and (anyway or (take and root not in keys)):
                keys.append(root)
    return np.array(keys, np.int64)


def _root_draws(graph: Any) -> Iterator[int]:
    """Yield the reference's candidates for keys, without end."""
    state = mrg_skip(mrg_seed(graph.seeds), high=2)
    while True:
        total = 0.0
        for _ in range(2):
            state = mrg_skip(state, low=1)
            high = state[0] * 4.65661287524579692e-10
            state = mrg_skip(state, low=1)
            total += high + state[0] * 2.168404346990492787e-19
        yield int(total * graph.vertices) % graph.vertices


def _touched(
    graph: Any, vertices: IntArray, degree: Degree | None, threads: int
) -> NDArray[np.bool_]:
    """Whether each vertex has an edge other than self-loops, (k,)."""
    if len(vertices) == 0:
        return np.zeros(0, np.bool_)
    if degree is not None:
        found = degree(vertices) if callable(degree) else degree[vertices]
        return np.asarray(found).astype(np.bool_)
    # All edges are gone through once; threads have flags of their own, joined at the end.
    table = np.full(1 << (8 * len(vertices)).bit_length(), -1, np.int64)
    insert_vertices(vertices, table)
    touched: list[AnyArray] = []

    def mark(low: int, high: int) -> None:
        mine = np.zeros(len(table), np.uint8)
        touched.append(mine)
        ends = np.empty((2, BLOCK_EDGES), np.int64)
        for start in range(low, high, BLOCK_EDGES):
            source, target = ends[:, : min(BLOCK_EDGES, high - start)]
            graph.generate_into(start, source, target)
            mark_touched(source, target, table, mine)

    in_ranges(threads, graph.edges, mark)
    hit: NDArray[np.bool_] = np.isin(vertices, table[np.any(touched, axis=0)])
    return hit
