"""Arcs that no shortest path needs, found on a CUDA device (`many_prune.cu`).

The rule is that of `ooc_graph.kernels.cpu.many.prune`: an arc is dropped if a way over a landmark
is shorter also as rounded sums. Here there are 32 landmarks, one a lane, and lengths are floats
that are rounded up whatever the weights are; so fewer arcs may be dropped, never more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.tuning import FIRST_SPAN
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.types import AnyArray

LANDMARKS = 32
"""Vertices of the highest degrees that are tried as ways."""
HASTY, HASTY_ARCS, ENOUGH_ARCS = 2, 64, 256
"""Passes over the rows to find lengths: so many hasty ones and one more, and others only while
landmarks reach further rows. The hasty ones look at so few arcs of a row, whoever is not reached
then; later ones at so many where all landmarks have reached it."""
MOST_PASSES = 16
"""Where a landmark then still reaches further rows, nothing is dropped: the graph is too long."""
_MARKED = 128
_WARPS = 32
_NAMES = {"f4": "float", "f8": "double", "i8": "i64"}


def constants(weights: np.dtype[Any]) -> dict[str, int | str]:
    """What ``many_prune.cu`` is compiled with for these weights."""
    return {"WEIGHT": _NAMES[weights.str[1:]]}


def fit_floats(rows: int, heaviest: float) -> bool:
    """Whether every length to a landmark is a finite float32.

    A length that is not would look like that of a row which is not reached, and the span of the
    others would not bound the way to it. ``heaviest`` is the weight of an arc at most, with what is
    added to it.
    """
    # Every sum is rounded up, by one unit in the last place at most; so are weight and addition.
    most = np.finfo(np.float32)
    rounding = math.exp((rows + 4) * float(most.eps))
    return rows * heaviest * rounding < float(most.max)


class Pruning:
    """Looks for arcs that nobody needs, of one graph whose rows are on the device."""

    def __init__(self, out: DeviceRows, into: DeviceRows, *, is_sorted: bool) -> None:
        self._out, self._into, self._is_sorted = out, into, is_sorted
        self._weights = into.weights.dtype
        self._count = cuda().zeros(1, np.uint64)

    def lengths(self) -> tuple[Any, Any] | None:
        """Bits of float lengths to the landmarks, and from them: uint32 (rows * landmarks,).

        A rounded sum along one of the shortest ways from any vertex to any other is less than the
        sum of lengths over any landmark. None where they are not found in a few passes, or may
        exceed floats.
        """
        eps = float(np.finfo(self._weights).eps) if self._weights.kind == "f" else 0.0
        heaviest = float(self._into.weights.max())
        span = FIRST_SPAN * heaviest
        while fit_floats(self._into.rows, heaviest + 4 * eps * span):
            error = np.nextafter(np.float32(4 * eps * span), np.float32(np.inf)) if eps else 0
            away = self._lengths(self._out, self._into, np.float32(error))
            if away is None:
                return None
            to = away
            if self._out is not self._into:
                to = self._lengths(self._into, self._out, np.float32(error))
                if to is None:
                    return None
            farthest = self._farthest(away)
            found = float((farthest + (farthest if to is away else self._farthest(to))).max())
            if found <= span or not eps:
                return to, away
            span = 2 * found
        return None

    def pruned(self, lengths: tuple[Any, Any]) -> DeviceRows:
        """Rows of in-arcs without those that are not needed; the same rows where most are."""
        cupy, into = cuda(), self._into
        needed = cupy.empty(into.arcs, np.uint8)
        rows = np.uint32(into.rows), np.uint64(into.arcs), into.offsets, into.neighbors
        given = *rows, into.weights, *lengths, needed
        self._launch("mark_needed", into.arcs // _MARKED * _WARPS, *given)
        counts = cupy.cumsum(needed, dtype=np.uint64)
        kept = int(counts[-1])
        if 4 * kept > 3 * into.arcs:
            return into
        neighbors, weights = cupy.empty(kept, np.uint32), cupy.empty(kept, self._weights)
        arcs = (np.uint64(into.arcs), needed, counts, into.neighbors, into.weights)
        self._launch("keep_needed", into.arcs, *arcs, neighbors, weights)
        ends = cupy.zeros(into.arcs + 1, np.uint64)
        ends[1:] = counts
        return replace(
            into, offsets=ends[into.offsets.view(np.int64)], neighbors=neighbors, weights=weights
        )

    def _launch(self, name: str, threads: int, *arguments: Any) -> None:
        chosen = constants(self._weights)
        launch("many_prune.cu", name, threads, *arguments, constants=chosen, most=1 << 13)

    def _farthest(self, length: Any) -> AnyArray:
        """Longest known length of each landmark, as float64."""
        most = cuda().zeros(LANDMARKS, np.uint32)
        rows = len(length) // LANDMARKS
        self._launch("find_farthest", 1 << 17, np.uint32(rows), length, most)
        found: AnyArray = most.get().view(np.float32).astype(np.float64)
        return found

    def _lengths(self, first: DeviceRows, pulled: DeviceRows, error: np.float32) -> Any:
        """Bits of lengths (rows, landmarks); None where many passes are not enough.

        Every landmark is known to reach, in the end, what it does reach.
        """
        length = cuda().full(pulled.rows * LANDMARKS, 0x7F800000, np.uint32)
        marks = np.uint32(min(LANDMARKS, pulled.rows))
        arcs = (first.offsets, first.neighbors, first.weights)
        self._launch("begin_landmarks", 1 << 20, marks, *arcs, error, length)
        rows = (np.uint32(pulled.rows), np.uint32(self._is_sorted))
        arcs = (pulled.offsets, pulled.neighbors, pulled.weights)
        for turn in range(MOST_PASSES):
            self._count.fill(0)
            hasty = turn < HASTY
            enough = np.uint32(HASTY_ARCS if hasty else ENOUGH_ARCS)
            arguments = (*rows, enough, np.uint32(hasty), *arcs, error, length, self._count)
            self._launch("pull_landmarks", pulled.rows * _WARPS, *arguments)
            if not hasty and not int(self._count.get()[0]):
                return length
        return None
