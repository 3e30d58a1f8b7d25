"""The steps of a validation, whatever the kernel: rules of the tree, then of every edge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from operator import length_hint
from typing import Any, Generic, TypeVar

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, EdgeBlock
from ooc_graph.validate import loops
from ooc_graph.validate.answers import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate.batch import BATCH_ANSWERS, Batch
from ooc_graph.validate.edge_loops import LEAVES, LEVEL, SPAN
from ooc_graph.validate.tally import NO_ID, NONE, Tally, first_unknown
from ooc_graph.validate.tree_arcs import InRanges
from ooc_graph.validate.tree_loops import RANGE
from ooc_graph.validate.wording import Problem, Verdict, Wording

Answer = TypeVar("Answer", BfsAnswer, SsspAnswer)
Arc = tuple[int, int]
Rows = tuple[AnyArray, AnyArray, Any]
"""Positions of parents, and values, of an answer that is taken in; what stands for unreached."""


class Validator(ABC, Generic[Answer]):
    """Checks answers of one graph in one pass over its edges; arcs if they are ``directed``.

    Memory: one answer is not copied, and takes 4 bytes a vertex more (8 from 2**31 vertices on).
    Several are copied into a batch as they come, see `batch_bytes`.

    The answers are over the same vertices and, for SSSP, of one dtype; else it is a UsageError.
    They may come from a generator; ``count``, how many they are, then keeps a batch from having
    room for more. Those that no longer fit are left: what was asked for in vain is ``refused``, an
    answer or none. ``threads`` take them in.
    """

    _wording: Wording
    _is_level: bool

    def __init__(
        self,
        answers: Iterable[Answer],
        *,
        directed: bool,
        count: int | None = None,
        threads: int = 1,
    ) -> None:
        self.directed = directed
        self.vertices = VertexIndex.dense(0, 0)
        self.refused: list[Answer] = []
        self._before: list[Verdict] = []
        self._batch = Batch.alone(np.empty(0, np.uint32), np.uint32(0), np.dtype(np.int32))
        expected = length_hint(answers, BATCH_ANSWERS) if count is None else count
        answer: Any
        with Threads(threads) as pool:
            in_ranges = partial(self._in_ranges, pool)
            for answer in answers:
                if not self._take(answer, expected, in_ranges):
                    self.refused = [answer]
                    break
                del answer  # before the next one is made
                if self._batch.is_full():
                    break
            self._batch.seal(in_ranges)
        self.tally = self._batch.tally()

    def _take(self, answer: Answer, expected: int, in_ranges: InRanges) -> bool:
        """Check the tree and put it into the batch; whether it has fitted there."""
        vertices, least = answer.vertices, self._least(answer)
        if not self._before:
            self.vertices = vertices
            self._batch = self._begun(answer, min(expected, BATCH_ANSWERS), least)
        if not vertices.same_as(self.vertices):
            raise UsageError("the answers of one validation must have the same vertices")
        batch = self._batch
        if least > batch.unreached:
            return False
        position, values = batch.rows()
        root = int(vertices.positions(np.array([answer.root], dtype=np.int64))[0])
        verdict = self._column_verdict(answer, (position, values, batch.unreached), root, in_ranges)
        self._before.append(verdict)
        if verdict.ok:  # else the edges have nothing to say about it
            position[root] = -1  # needs no tuple
            batch.put(in_ranges)
        return True

    def _begun(self, answer: Answer, expected: int, least: Any) -> Batch:
        """Return a batch with room for the ``expected`` number of answers like this one."""
        vertices = answer.vertices
        if expected <= 1:
            return Batch.alone(*self._column(answer), vertices.position_dtype)
        return Batch.of(vertices.count, expected, vertices.position_dtype, least)

    def _in_ranges(self, pool: Threads, look: Callable[[int, int], Any]) -> list[Any]:
        """Call a function with the start and stop of ranges of vertices; what it returned."""
        starts = range(0, self.vertices.count, RANGE)
        stops = (min(start + RANGE, self.vertices.count) for start in starts)
        return list(pool.map(look, starts, stops))

    def _column_verdict(
        self, answer: Answer, rows: Rows, root: int, in_ranges: InRanges
    ) -> Verdict:
        """Outcome of the rules for a vertex alone; the rows of the batch are written."""
        problem, reached = self._root_problem(answer, root), 0
        if problem is None:
            problem, reached = self._column_problem(answer, rows, in_ranges)
        return Verdict(answer.root, problem is None, *(problem or ("", "")), reached=reached)

    def _root_problem(self, answer: Answer, root: int) -> Problem | None:
        if root < 0:
            return self._wording.no_root(answer.root)
        if answer.parent[root] != answer.root:
            return self._wording.root_parent(answer.parent[root])
        if (value := self._measured(answer)[0][root]) != 0:
            return self._wording.root_value(value)
        return None

    def _column_problem(
        self, answer: Answer, rows: Rows, in_ranges: InRanges
    ) -> tuple[Problem | None, int]:
        """Rule and message of the first such rule that an answer breaks; what it reaches."""
        value, given = self._measured(answer)
        position, values, copied = rows
        unreached, vertices = (given, copied), self.vertices
        ids = np.empty(0, np.int64) if vertices.ids is None else vertices.ids

        def take(start: int, stop: int) -> tuple[AnyArray, int]:
            first = np.full(2, NONE, dtype=np.int64)
            part = vertices.first, start, stop, position, values, first
            return first, loops.take_column(answer.parent, value, unreached, ids, *part)

        found, counts = zip(*in_ranges(take), strict=True)
        outside, half = (int(first) for first in np.min(found, axis=0))
        name = self.vertices.id_of
        if outside != NONE:
            return self._wording.no_parent(name(outside), answer.parent[outside]), 0
        if half != NONE:
            return self._wording.half_reached(name(half), answer.parent[half], value[half]), 0
        return None, sum(counts)

    def fork(self) -> Validator[Answer]:
        """Return a validator of the same answers that has seen no edges, for another thread.

        What has been confirmed is shared, and what else was seen is brought together by `merge`.
        """
        twin = copy(self)
        twin.tally = self._batch.tally()
        return twin

    def block(self, edges: EdgeBlock) -> None:
        """Check one block of tuples; every tuple of the input must be given exactly once."""
        source = self.vertices.positions(edges.source)
        target = self.vertices.positions(edges.target)
        weight: Any = self._weight(edges)
        unknown = min(first_unknown(edges.source, source), first_unknown(edges.target, target))
        if unknown != NO_ID:
            keep = (source >= 0) & (target >= 0)
            weight = None if weight is None else weight[keep]
            source, target = source[keep], target[keep]
        if source.itemsize == 4:
            source, target = source.view(np.uint32), target.view(np.uint32)
        self.tally.unknown_id = min(self.tally.unknown_id, unknown)
        self._batch.look(source, target, weight, self.directed, self.tally)

    def merge(self, other: Validator[Answer]) -> None:
        """Take in what a fork saw."""
        self.tally.merge(other.tally)

    @property
    def taken(self) -> int:
        """How many answers have been taken in."""
        return len(self._before)

    def finish(self) -> list[Verdict]:
        """Outcome for each answer, after all edges have been seen."""
        pending = enumerate(self._batch.first_unconfirmed())
        return [
            self._verdict(before, *next(pending)) if before.ok else before
            for before in self._before
        ]

    def _verdict(self, before: Verdict, slot: int, pending: Arc | None) -> Verdict:
        batch, tally = self._batch, self.tally
        if problem := self._tree_problem(batch, tally, slot, before.root, pending):
            return Verdict(before.root, False, *problem)
        problem = self._edge_problem(batch, tally, slot, pending)
        rule, message = problem or ("", "")
        return Verdict(
            before.root, problem is None, rule, message, before.reached, tally.edges(slot)
        )

    def _tree_problem(
        self, batch: Batch, tally: Tally, slot: int, root: int, pending: Arc | None
    ) -> Problem | None:
        """Vertices against their parents, as far as no tuple has shown that they fit."""
        name = self.vertices.id_of
        if pending and (step := batch.first_bad_step(slot)):
            above, child = step
            ends = (self._shown(batch, v, slot) for v in step)
            return self._wording.bad_step(name(child), name(above), *ends)
        if not self._is_level and (pending or tally.first_broken(LEVEL, slot)):
            equal = batch.equal if pending else tally.equal
            at = int(self.vertices.positions(np.array([root], dtype=np.int64))[0])
            if (start := batch.cycle(slot, at, equal)) >= 0:
                return self._wording.cycle(name(start))
        return None

    def _edge_problem(
        self, batch: Batch, tally: Tally, slot: int, pending: Arc | None
    ) -> Problem | None:
        name = self.vertices.id_of
        if tally.unknown_id != NO_ID:
            return self._wording.unknown_vertex(tally.unknown_id)
        if arc := tally.first_broken(LEAVES, slot):
            return self._wording.leaves(*map(name, arc))
        if arc := tally.first_broken(SPAN, slot):
            u, v = arc
            ends = self._shown(batch, u, slot), self._shown(batch, v, slot)
            return self._wording.spans(name(u), name(v), *ends)
        if pending:
            return self._wording.no_tree_edge(*map(name, pending))
        return None

    def _shown(self, batch: Batch, vertex: int, slot: int) -> Any:
        """A level or distance as an answer has it."""
        value = batch.measure.at(np.array([vertex]), slot)[0]
        return -1 if self._is_level and value == batch.unreached else value

    @abstractmethod
    def _measured(self, answer: Answer) -> tuple[AnyArray, Any]:
        """Levels or distances of an answer, and that of its unreached vertices."""

    def _column(self, answer: Answer) -> tuple[AnyArray, Any]:
        """The values as a batch has them, if not in bytes; unreached, the largest."""
        return self._measured(answer)

    def _least(self, answer: Answer) -> Any:
        """What stands for unreached in a batch of the smallest dtype that holds the values."""
        return self._column(answer)[1]

    @abstractmethod
    def _weight(self, edges: EdgeBlock) -> AnyArray | None:
        """Weights in the dtype of the distances; None for levels."""
