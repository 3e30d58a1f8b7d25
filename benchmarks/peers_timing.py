"""Searches of all libraries in turn on one graph, their answers compared, figures of each.

References
----------
Graph500 benchmark specification 3.0: edges of the component over time, harmonic mean over the
sources.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peers_adapters import Search
from peers_graphs import Case

from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.types import AnyArray, IntArray

# Sums of rounded weights: each step of a path adds half a unit in the last place at most.
FLOAT_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}
# OpenMP's threads spin for a while after their work; they should not do it in another's time.
SETTLE_S = 0.02
PARENTS_CHECKED = 1 << 16


class WrongAnswerError(Exception):
    """Two libraries do not agree on an answer; nobody is timed on a wrong one."""


@dataclass
class Timed:
    """Searches of one library, in the order of the sources."""

    adapter: Any  # the library: a `Peer`, or `Ours`
    times_s: list[float] = field(default_factory=list)
    search_s: list[float] = field(default_factory=list)
    parents: bool = False  # whether it gives parents

    def search(self, kernel: str, vertex: int, *, counts: bool = False) -> Search:
        """One search from a vertex of the graph, which counts among the timed ones or not."""
        search: Search = getattr(self.adapter, kernel)(vertex)
        self.parents = search.parents is not None
        if counts:
            self.times_s.append(search.elapsed_s)
            self.search_s += [] if search.search_s is None else [search.search_s]
        return search


def alternate(
    kernel: str, case: Case, turns: list[Timed], count_of: Callable[[float], int]
) -> list[int]:
    """Search from every source with every library in turn, after one untimed search of each.

    The first is ours: its answers are the others' measure, and say what was reached: edges within
    it are returned, by source. ``count_of`` says how many searches a library does, given the
    seconds of its untimed one. WrongAnswerError: answers from the first or second source differ.
    Of a library that takes many vertices together, a row of ``case.sources`` is one source.
    """
    sources = case.sources.tolist()
    counts = [count_of(first) for first in compare(kernel, case, turns, sources[0])]
    edges = []
    for number, source in enumerate(sources[: counts[0]]):
        for turn, count in zip(turns, counts, strict=True):
            if number >= count:
                continue
            time.sleep(SETTLE_S)
            search = turn.search(kernel, source, counts=True)
            if turn is turns[0]:
                edges.append(case.edges_within(np.isfinite(search.measure())))
    if len(sources) > 1:
        again = [turn for turn, count in zip(turns, counts, strict=True) if count > 1]
        compare(kernel, case, again, sources[1])
    return edges


def compare(kernel: str, case: Case, turns: list[Timed], source: int) -> list[float]:
    """Seconds of one search of each library; measures are equal, parents on shortest paths.

    WrongAnswerError: they are not.
    """
    times_s = []
    expected: AnyArray | None = None
    what = f"{case.name}, {kernel} from {case.ids[source]}:"
    for turn in turns:
        search = turn.search(kernel, source)
        answer, name = search.measure(), turn.adapter.name
        expected = answer if expected is None else expected
        if (wrong := _differing(expected, answer, tolerance_of(kernel, case))).size:
            vertex = int(wrong[0])
            raise WrongAnswerError(
                f"{what} {turns[0].adapter.name} has {expected.flat[vertex]} at vertex "
                f"{case.ids[vertex % len(case.ids)]}, {name} {answer.flat[vertex]}; "
                f"{wrong.size:,} vertices differ"
            )
        if (wrong := _off_tree(kernel, case, search, answer, source)).size:
            at = case.ids[wrong[0]]
            raise WrongAnswerError(
                f"{what} {name} has a parent of vertex {at} that is on no shortest path"
            )
        times_s.append(search.elapsed_s)
    return times_s


def tolerance_of(kernel: str, case: Case) -> float:
    """Relative difference that rounding explains: none for levels and integer weights."""
    if kernel == "bfs" or case.edges.w is None:
        return 0.0
    return FLOAT_TOLERANCE.get(case.edges.w.dtype, 0.0)


def _differing(expected: AnyArray, answer: AnyArray, tolerance: float) -> IntArray:
    return np.flatnonzero(~np.isclose(answer, expected, rtol=tolerance, atol=tolerance * 1e-2))


def _off_tree(kernel: str, case: Case, search: Search, measure: AnyArray, source: int) -> IntArray:
    """Vertices, of some thousand that were reached, to which their parent does not lead."""
    if search.parents is None:
        return np.empty(0, np.int64)
    child = np.flatnonzero(np.isfinite(measure))
    child = child[child != source][:: -(-len(child) // PARENTS_CHECKED)]
    parent = np.asarray(search.parents(child), np.int64)
    led = measure[parent] + case.edges.lengths(parent, child, weighted=kernel == "sssp")
    return child[_differing(led, measure[child], tolerance_of(kernel, case))]


def figures_of(
    turn: Timed, ours: Timed, edges: list[int], memory: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Figures of one library; its ratio is of harmonic means over the sources that it searched."""
    count = len(turn.times_s)
    rate = teps_statistics(turn.times_s, edges[:count]).harmonic_mean
    own_rate = teps_statistics(ours.times_s[:count], edges[:count]).harmonic_mean
    figures: dict[str, Any] = {
        "version": turn.adapter.version,
        "searches": count,
        "parents": turn.parents,
        "median_s": statistics.median(turn.times_s),
        "harmonic_mean_teps": rate,
        "ours_is_faster_by": own_rate / rate,
        "build_s": turn.adapter.build_s,
        "memory": memory,
        "times_s": turn.times_s,
    }
    if turn.search_s:
        figures["median_search_s"] = statistics.median(turn.search_s)
    return figures
