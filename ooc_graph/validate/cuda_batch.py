"""Graph500's rules on a CUDA device, for up to 64 answers in one pass over edges.

Answers are laid out [vertex][answer]:
an edge reads its ends' rows, which are whole lines of memory for a batch. A tree edge is forgotten
once a tuple has confirmed it, so that what is left in the end is what the input lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.validate import cuda_trees as trees
from ooc_graph.validate.batch import BATCH_ANSWERS
from ooc_graph.validate.cuda_loader import (
    FOUR,
    NARROW,
    THREADS,
    cuda,
    kernel,
    multiprocessors,
    within_memory,
)
from ooc_graph.validate.cuda_trees import NO_VERTEX, parent_at
from ooc_graph.validate.wording import Problem, Verdict, Wording

MOST_VERTICES = (1 << 32) - 1
"""Ids take 32 bits, and the largest of those means none."""

_NO_ARC = (1 << 64) - 1
_NO_ID = (1 << 63) - 1


class CudaValidator(ABC):
    """Checks a batch of answers of one graph in one pass over its edges, on the current device.

    First `add` every answer, 1 to 64 of them, then show every `block` of edges, then `finish`. Ids
    are 0 to ``vertices - 1``, and fewer than 2**32 - 1. If ``directed``, a tuple is an arc from
    source to target only. Everything happens on CuPy's current stream. If the device's memory is
    too small, any method raises `MemoryBudgetError`.
    """

    _wording: Wording

    def __init__(self, vertices: int, answers: int, *, directed: bool = False) -> None:
        if not 0 <= vertices <= MOST_VERTICES:
            raise UsageError(
                f"{vertices:,} vertices: validation on a device takes {MOST_VERTICES:,} at most"
            )
        if not 1 <= answers <= BATCH_ANSWERS:
            raise UsageError(f"a batch has 1 to {BATCH_ANSWERS} answers, not {answers}")
        self.vertices, self.directed = vertices, directed
        self._group = 1 if answers == 1 else FOUR  # answers that a thread looks at
        self._capacity, self._width = answers, -(-answers // self._group) * self._group
        self._before: list[Verdict] = []
        self._begun = False
        self._parents: Any = None
        self._measures: Any = None
        cupy = cuda()
        with within_memory():
            self._counts = cupy.zeros(self._width, np.uint64)
            self._broken = cupy.full((2, self._width), _NO_ARC, np.uint64)
            self._unknown = cupy.full(1, _NO_ID, np.int64)

    def add(self, root: int, parent: Any, measure: Any) -> Verdict:
        """Check one tree and copy it into the batch; the verdict is by rules that need no edges.

        Both arrays are on the device. ``parent``, uint32 or int64 (vertices,), are ids, all ones
        (-1) where unreached. ``measure``, (vertices,), are levels, uint8 with 255 for unreached or
        int32 with -1; or distances, float32 or float64 with +inf or int64 with ``INT64_UNREACHED``,
        of one type for all answers. Arrays of other shapes or types, more answers than there is
        room for, and answers after edges are refused (`UsageError`).
        """
        self._check_answer(parent, measure)
        cupy = cuda()
        with within_memory():
            parent, measure = cupy.ascontiguousarray(parent), cupy.ascontiguousarray(measure)
            self._allocate(measure)
            verdict = self._tree_verdict(root, parent, measure)
            if verdict.ok:
                column = self._column(measure)
                number = len(self._before)
                trees.copy_answer(root, parent, column, number, self._parents, self._measures)
        self._before.append(verdict)
        return verdict

    def _check_answer(self, parent: Any, measure: Any) -> None:
        if self._begun:
            raise UsageError("answers are added before any edges are shown")
        if len(self._before) == self._capacity:
            raise UsageError(f"this batch has room for {self._capacity} answers only")
        for name, column in (("parent", parent), (self._wording.measure, measure)):
            if column.shape != (self.vertices,):
                raise UsageError(f"{name} has shape {column.shape} for {self.vertices} vertices")
        if parent.dtype not in (np.uint32, np.int64):
            raise UsageError(f"parents on a device are uint32 or int64, not {parent.dtype}")
        self._check_measure(measure.dtype)

    def _tree_verdict(self, root: int, parent: Any, measure: Any) -> Verdict:
        problem, reached = self._root_problem(root, parent, measure), 0
        if problem is None:
            problem, reached = self._tree_problem(root, parent, measure)
        if problem is not None:
            return Verdict(root, False, *problem)
        return Verdict(root, True, reached=reached)

    def _root_problem(self, root: int, parent: Any, measure: Any) -> Problem | None:
        if not 0 <= root < self.vertices:
            return self._wording.no_root(root)
        if (found := parent_at(parent, root)) != root:
            return self._wording.root_parent(found)
        if (value := self._at(measure, root)) != 0:
            return self._wording.root_value(value)
        return None

    def _tree_problem(self, root: int, parent: Any, measure: Any) -> tuple[Problem | None, int]:
        """What is wrong with a tree, and the vertices that it reaches."""
        found = trees.survey(root, parent, measure)
        if (vertex := found.outside) != NO_VERTEX:
            return self._wording.no_parent(vertex, parent_at(parent, vertex)), 0
        if (vertex := found.half) != NO_VERTEX:
            ends = parent_at(parent, vertex), self._at(measure, vertex)
            return self._wording.half_reached(vertex, *ends), 0
        if (vertex := found.step) != NO_VERTEX:
            above = parent_at(parent, vertex)
            values = self._at(measure, above), self._at(measure, vertex)
            return self._wording.bad_step(vertex, above, *values), 0
        if found.flat and (vertex := trees.cycle_start(root, parent, measure)) != NO_VERTEX:
            return self._wording.cycle(vertex), 0
        return None, found.reached

    def _allocate(self, measure: Any) -> None:
        """Make room for all answers, none of them there yet, when the first one is seen."""
        if self._measures is not None:
            return
        shape = (self.vertices, self._width)
        parents = cuda().full(shape, NO_VERTEX, np.uint32)
        self._measures = cuda().full(shape, *self._nothing(measure))
        self._parents = parents

    def block(self, source: Any, target: Any, weight: Any = None) -> None:
        """Check one block of tuples; every tuple of the input must be shown exactly once.

        All arrays are on the device. ``source`` and ``target`` are uint32 or int64 (m,), and
        ``weight``, (m,), for SSSP, of a type that the distances' holds exactly. Other types and
        lengths are refused (`UsageError`), and weights that are negative or not finite
        (`InputError`).
        """
        if source.dtype != target.dtype or source.dtype not in (np.uint32, np.int64):
            raise UsageError(
                f"edges on a device have ids of type uint32 or int64, not {source.dtype} and "
                f"{target.dtype}"
            )
        if len(source) != len(target) or (weight is not None and len(weight) != len(source)):
            raise UsageError("source, target and weight must have one length")
        self._begun = True
        if self._measures is None:
            return
        with within_memory():
            lengths = self._weight(weight)
            if len(source):
                cupy = cuda()
                ends = cupy.ascontiguousarray(source), cupy.ascontiguousarray(target)
                self._edges(*ends, lengths)

    def _edges(self, source: Any, target: Any, weight: Any) -> None:
        look = kernel("edges", self._measures.dtype, source.dtype, self._group)
        directed = np.uint32(self.directed)
        sizes = (directed, np.uint32(self.vertices), np.uint32(self._width))
        tuples = (np.uint64(len(source)), source, target, weight)
        found = (self._counts, self._broken, self._unknown)
        arguments = (*tuples, *sizes, self._measures, self._parents, *found)
        look(*self._grid(len(source)), arguments)

    def _grid(self, items: int) -> tuple[tuple[int], tuple[int]]:
        """Blocks and threads where a thread has a group of answers of one item."""
        threads = self._width // self._group
        groups = THREADS // threads
        most = 8 * multiprocessors(cuda().cuda.Device().id)
        return (max(1, min(most, -(-items // groups))),), (threads * groups,)

    def finish(self) -> list[Verdict]:
        """Outcome for each answer, in order, after all edges have been shown."""
        if self._measures is None:
            return []
        cupy = cuda()
        with within_memory():
            child = cupy.full(self._width, NO_VERTEX, np.uint32)
            look = kernel("unconfirmed", self._measures.dtype, NARROW, self._group)
            sizes = (np.uint32(self.vertices), np.uint32(self._width))
            look(*self._grid(self.vertices), (*sizes, self._parents, child))
        tallies = (self._counts, self._broken, child, self._unknown)
        counts, broken, children, unknown = (cupy.asnumpy(array) for array in tallies)
        verdicts = []
        for number, before in enumerate(self._before):
            problem = None
            if before.ok:
                arcs, lacking = broken[:, number].tolist(), int(children[number])
                problem = self._edge_problem(number, int(unknown[0]), arcs, lacking)
            verdicts.append(_after(before, problem, int(counts[number])))
        return verdicts

    def _edge_problem(
        self, number: int, unknown: int, broken: list[int], child: int
    ) -> Problem | None:
        leaving, span = broken
        if unknown != _NO_ID:
            return self._wording.unknown_vertex(unknown)
        if leaving != _NO_ARC:
            return self._wording.leaves(*_arc(leaving))
        if span != _NO_ARC:
            start, end = _arc(span)
            near, far = (self._at(self._measures[:, number], at) for at in (start, end))
            return self._wording.spans(start, end, near, far)
        if child != NO_VERTEX:
            return self._wording.no_tree_edge(parent_at(self._parents[:, number], child), child)
        return None

    @abstractmethod
    def _check_measure(self, dtype: np.dtype[Any]) -> None:
        """Refuse levels or distances of other types."""

    @abstractmethod
    def _nothing(self, measure: Any) -> tuple[Any, np.dtype[Any]]:
        """Value of unreached vertices in the batch, and its type."""

    @abstractmethod
    def _column(self, measure: Any) -> Any:
        """Levels or distances of a right tree in the type of the batch."""

    @abstractmethod
    def _at(self, column: Any, vertex: int) -> Any:
        """A level or distance as the CPU's answers have it."""

    @abstractmethod
    def _weight(self, weight: Any) -> Any:
        """Weights in the type of the distances."""


def _after(before: Verdict, problem: Problem | None, edges: int) -> Verdict:
    if not before.ok:
        return before
    return Verdict(before.root, problem is None, *(problem or ("", "")), before.reached, edges)


def _arc(key: int) -> tuple[int, int]:
    return key >> 32, key & 0xFFFFFFFF
