"""SSSP on a graph that one CUDA device holds whole: which search does it, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import overflow_error
from ooc_graph.kernels.common.sssp.rows import Survey, first_rows, may_pull, sampled_rows, survey_of
from ooc_graph.kernels.cuda.runtime.modules import (
    THREADS,
    blocks_for,
    cuda,
    kernel,
    launch,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.rows import (
    DeviceRows,
    on_device,
    originals_on_device,
    require_root,
    rows_on_device,
    seconds_of,
)
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.pull import PushPull
from ooc_graph.kernels.cuda.sssp.small import OneBlock, suits_one_block
from ooc_graph.kernels.cuda.sssp.sums import Sums, require_weights, sums_for
from ooc_graph.types import AnyArray, Rows

_PHASES = ("push", "pull", "finish", "parents")


class CudaSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    Takes weights of every type. Lengths of 32 bits are searched by push and pull if that pays, as
    on the CPU, and all others by near-far, or by one block if that holds the graph. Integers are
    summed in 32 bits as long as that is enough: the first search that finds a longer distance is
    repeated with 64 bits, and so are all from then on. Everything happens on the device and the
    stream that are CuPy's current ones.

    Rows are light-first, of out- and in-arcs (the same object when undirected), with the input
    tuples at each row, in host memory (copied) or on the device. ``original_of`` and errors are as
    of `CudaBfsSearch`; rows without weights are refused, too.
    """

    def __init__(
        self, out: Rows, into: Rows, tuples: AnyArray, *, original_of: AnyArray | None = None
    ) -> None:
        cuda()
        for rows in (out, into):
            require_weights(rows)
        with within_memory("SSSP on this graph"):
            self._tuples = on_device(tuples)
            self._load(out, into)
            self._original_of = originals_on_device(original_of, self._out.rows)
            self._survey = _survey(self._out, self._tuples, self._sums)
            self._prepare()

    def _load(self, out: Rows, into: Rows) -> None:
        loaded = rows_on_device(out, weighted=True)
        self._heaviest = loaded.weights.max().item() if loaded.arcs else 0
        self._sums = self._sums_of(loaded.weights)
        self._out = replace(loaded, weights=self._sums.bits_of(loaded.weights))
        self._into = self._out
        del loaded  # weights of both sides at once would be more than was counted
        if into is not out:
            loaded = rows_on_device(into, weighted=True)
            self._into = replace(loaded, weights=self._sums.bits_of(loaded.weights))

    def _sums_of(self, weights: Any) -> Sums:
        """How weights are summed at first, of which the heaviest is known."""
        return sums_for(weights, self._heaviest, wide=False)

    def _prepare(self) -> None:
        heaviest = self._sums.weight_argument(self._heaviest)
        given = self._tuples, self._sums, self._survey.step, heaviest
        graph = Weighted(self._out, self._into, *given)
        self._may_overflow = self._sums.may_overflow(self._heaviest, self._out.rows)
        pulls = not self._sums.wide and may_pull(self._survey)
        self._method: Method | None = self._method_for(graph, pulls)
        self._lost = cuda().empty(1, np.uint32)
        self._distance = None
        if self._sums.integers and not self._sums.wide:
            self._distance = cuda().empty(self._out.rows, np.int64)

    def _method_for(self, graph: Weighted, pulls: bool) -> Method:
        """What searches a graph, where pulling pays or does not."""
        if pulls:
            return PushPull(graph)
        return OneBlock(graph) if suits_one_block(self._into, self._sums) else NearFar(graph)

    @property
    def heaviest(self) -> float:
        """Largest weight; 0 without arcs."""
        return self._heaviest

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``; the answer in host memory, parents as internal ids.

        A distance that exceeds its type is an `InputError`. If distances need 64 bits, and the
        device has no memory for that, it is a `MemoryBudgetError`.
        """
        there: Any = self._run(root, None)
        columns = there.parent.get(), there.distance.get()
        return SsspTree(*columns, there.elapsed_s, there.phase_arcs)

    def run_on_device(self, root: int) -> SsspTree:
        """As `run`; the arrays stay on the device, and change with the next search.

        Parents are original ids if the search was given some. Seconds are the device's, by events,
        with all initialisation.
        """
        return self._run(root, self._original_of)

    def _run(self, root: int, original_of: Any) -> SsspTree:
        require_root(root, self._out.rows)
        method = self.method
        elapsed_s = seconds_of(self._launch(method, root, original_of))
        if self._may_overflow and self._overflowed(method.length):
            if self._sums.wide or not self._sums.integers:
                raise overflow_error(self._sums.distance)
            self._sums = replace(self._sums, wide=True)
            self._method = self._distance = None
            del method
            tree = self._run(root, original_of)
            return replace(tree, elapsed_s=elapsed_s + tree.elapsed_s)
        counts = method.counts()
        if counts[0]:
            raise AssertionError(f"{counts[0]} reached vertices have no parent")
        distance = self._distance
        if distance is None:
            distance = method.length.view(self._sums.distance)
        phase_arcs = dict(zip(_PHASES, counts[1:].tolist(), strict=True))
        return SsspTree(method.parent, distance, elapsed_s, phase_arcs)

    @property
    def method(self) -> Method:
        """What searches the graph now, made anew if the last one was dropped."""
        if self._method is None:
            with within_memory("SSSP with distances of 64 bits on this graph"):
                self._prepare()
        assert self._method is not None
        return self._method

    def _launch(self, method: Method, root: int, original_of: Any) -> Callable[[], None]:
        """What launches a search and all that makes its answer."""
        search, rows, distance = method.launch(root, original_of), self._out.rows, self._distance
        if distance is None:
            return search
        # Compiled here, so that no search is timed with it.
        widen = kernel("sssp_answer.cu", "widen", self._sums.constants)

        def both() -> None:
            search()
            widen((blocks_for(rows),), (THREADS,), (np.uint32(rows), method.length, distance))

        return both

    def _overflowed(self, length: Any) -> bool:
        rows = self._out
        self._lost.fill(0)
        heaviest, constants = self._sums.weight_argument(self._heaviest), self._sums.constants
        arguments = (np.uint32(rows.rows), heaviest, rows.offsets, rows.neighbors, length)
        name = "sssp_answer.cu", "find_overflow"
        launch(*name, rows.rows, *arguments, self._lost, constants=constants, most=4096)
        return bool(self._lost.get()[0])


def _survey(rows: DeviceRows, tuples: Any, sums: Sums) -> Survey:
    """`survey` of rows on the device, of which only the looked-at weights are fetched."""
    cupy, weights = cuda(), sums.values_of(rows.weights)
    sampled = sampled_rows(rows.rows)
    offsets = rows.offsets[: sampled + 1].get().astype(np.int64)
    begin, end = offsets[:-1], offsets[1:]
    begin, end = begin[begin < end], end[begin < end]
    lightest, typical = (
        weights[cupy.asarray(at)].get() if len(at) else np.empty(0, np.float32)
        for at in (begin, (begin + end) // 2)
    )
    at_hubs = int(tuples[: first_rows(rows.rows)].sum(dtype=np.uint64))
    return survey_of(at_hubs, int(tuples.sum(dtype=np.uint64)), lightest, typical)
