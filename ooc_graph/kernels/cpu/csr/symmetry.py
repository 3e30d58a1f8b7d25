"""Whether a sparse matrix is its own transpose, by a fingerprint that one pass makes.

If A is the matrix, and x and y are vectors of pseudorandom numbers, x A y and y A x are the same
for a symmetric one. For any other they differ, except for at most one choice of x and y in 2^40
(Freivalds' check [1], modulo 2^64), if the numbers are as good as random, and the choice is new at
every call. To transpose takes ten times as long.

[1] R. Freivalds, "Fast probabilistic algorithms", MFCS 1979.
[2] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, even_rows


@subroutine
def _mixed(number: Any, seed: Any) -> Any:
    """A pseudorandom uint64 for a number and a seed, uint64: SplitMix64 [2]."""
    number = number * np.uint64(0x9E3779B97F4A7C15) + seed
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@kernel
def _add_up(
    thread: int, threads: int, _control: Any, arcs: Any, bits: Any, seeds: Any, sums: Any
) -> None:
    """Write a thread's part of x A y - y A x, modulo 2^64; ``bits`` are the weights'."""
    weighted, first, second = len(bits) > 0, seeds[0], seeds[1]
    total = np.uint64(0)
    end = even_rows(arcs.offsets, thread + 1, threads)
    for row in range(even_rows(arcs.offsets, thread, threads), end):
        x, y = np.uint64(0), np.uint64(0)
        for arc in range(arcs.offsets[row], arcs.offsets[row + 1]):
            target = np.uint64(arcs.targets[arc])
            weight = _mixed(bits[arc], first) if weighted else np.uint64(1)
            x += weight * _mixed(target, first)
            y += weight * _mixed(target, second)
        total += _mixed(np.uint64(row), first) * y - _mixed(np.uint64(row), second) * x
    sums[thread] = total


def is_symmetric(arcs: Arcs, team: Team) -> bool:
    """Whether each arc stands there backwards as well, as often, with the same weights."""
    seeds = np.frombuffer(secrets.token_bytes(16), np.uint64).copy()
    sums = np.zeros(team.threads, np.uint64)
    team.launch(_add_up, new_control(), arcs, arcs.weights.view(np.uint64), seeds, sums)
    return int(sums.sum()) == 0
