"""The random generator of Graph500's Kronecker graphs, in Python: states, skips and constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.cpu.build import random_draws as kernel

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
