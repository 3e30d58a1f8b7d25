"""The steps of a validation, whatever the kernel: rules of the tree, then of every edge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.types import AnyArray, EdgeBlock, IntArray
from ooc_graph.validate import edge_loops
from ooc_graph.validate.answers import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate.batch import BATCH_ANSWERS, NONE, Batch, Tally, assemble
from ooc_graph.validate.edge_loops import LEAVES, SPAN
from ooc_graph.validate.wording import Problem, Verdict, Wording

Answer = TypeVar("Answer", BfsAnswer, SsspAnswer)


@dataclass(frozen=True)
class Placed:
    """Tuples by position (m,), -1 for unknown vertices; weights in the distances' dtype."""

    source: AnyArray
    target: AnyArray
    weight: Any  # AnyArray, or None for BFS


class Validator(ABC, Generic[Answer]):
    """Checks answers of one graph in one pass over its edges; arcs if they are ``directed``.

    Memory: O(V) for each answer (about 9 bytes a vertex while an answer is taken in; afterwards a
    level (1 or 4 bytes) or distance a vertex and answer, and 12 bytes for each distinct tree arc),
    nothing that grows with the edges.

    The answers are over the same vertices and, for SSSP, of one dtype; else it is a UsageError.
    They may come from a generator; SSSP keeps up to 64 distance columns until they are laid out.
    """

    _wording: Wording

    def __init__(self, answers: Iterable[Answer], *, directed: bool) -> None:
        self.directed = directed
        self.vertices = VertexIndex.dense(0, 0)
        self._before: list[Verdict] = []
        self._batches: list[Batch] = []
        self._fill(answers)
        self.tallies = [batch.tally() for batch in self._batches]

    def _fill(self, answers: Iterable[Answer]) -> None:
        parents: AnyArray = np.empty((0, 0), dtype=np.int32)
        values: list[AnyArray] = []
        for answer in answers:
            if not self._before:
                self.vertices = answer.vertices
            if not values:
                shape = (BATCH_ANSWERS, self.vertices.count)
                parents = np.empty(shape, dtype=self.vertices.position_dtype)
            values.append(self._take(answer, parents[len(values)]))
            if len(values) == BATCH_ANSWERS:
                self._batches.append(assemble(parents, self._lay_out(values)))
                values = []
        if values:
            self._batches.append(assemble(parents[: len(values)], self._lay_out(values)))

    def _take(self, answer: Answer, parents: AnyArray) -> AnyArray:
        """Check the tree; return the column of values and write that of parents' positions."""
        if not answer.vertices.same_as(self.vertices):
            raise UsageError("the answers of one validation must have the same vertices")
        root = int(self.vertices.positions(np.array([answer.root], dtype=np.int64))[0])
        parents[:] = self.vertices.positions(answer.parent)
        verdict = self._tree_verdict(answer, parents, root)
        self._before.append(verdict)
        if not verdict.ok:
            parents[:] = -1  # reaches nothing: the edges have nothing to say about it
        return self._column(answer, verdict.ok)

    def _tree_verdict(self, answer: Answer, position: AnyArray, root: int) -> Verdict:
        problem = self._root_problem(answer, root) or self._tree_problem(answer, position, root)
        if problem is not None:
            return Verdict(answer.root, False, *problem)
        return Verdict(answer.root, True, reached=int(np.count_nonzero(answer.parent != -1)))

    def _root_problem(self, answer: Answer, root: int) -> Problem | None:
        if root < 0:
            return self._wording.no_root(answer.root)
        if answer.parent[root] != answer.root:
            return self._wording.root_parent(answer.parent[root])
        if self._value(answer)[root] != 0:
            return self._wording.root_value(self._value(answer)[root])
        return None

    def _tree_problem(self, answer: Answer, position: AnyArray, root: int) -> Problem | None:
        """Rule and message of the first tree rule that an answer breaks."""
        value, broken = self._value(answer), np.full(3, -1, dtype=np.int64)
        self._tree_rules(answer, position, root, broken)
        outside, half, step = (int(v) for v in broken)
        name = self.vertices.id_of
        if outside >= 0:
            return self._wording.no_parent(name(outside), answer.parent[outside])
        if half >= 0:
            return self._wording.half_reached(name(half), answer.parent[half], value[half])
        if step >= 0:
            ends = value[position[step]], value[step]
            return self._wording.bad_step(name(step), answer.parent[step], *ends)
        return None

    def before(self) -> list[Verdict]:
        """Outcome, for each answer, of the rules that need no edges."""
        return list(self._before)

    def fork(self) -> Validator[Answer]:
        """Return a validator of the same answers that has seen no edges.

        It shares the read-only arrays; threads must each have their own, since the tallies are
        written without locks. `merge` brings them together.
        """
        twin = copy(self)
        twin.tallies = [batch.tally() for batch in self._batches]
        return twin

    def block(self, edges: EdgeBlock) -> None:
        """Check one block of tuples; every tuple of the input must be given exactly once."""
        source = self.vertices.positions(edges.source)
        target = self.vertices.positions(edges.target)
        weight: Any = self._weight(edges)
        unknown = min(_first_unknown(edges.source, source), _first_unknown(edges.target, target))
        if unknown != NONE:
            keep = (source >= 0) & (target >= 0)
            weight = None if weight is None else weight[keep]
            source, target = source[keep], target[keep]
        placed = Placed(source, target, weight)
        for batch, tally in zip(self._batches, self.tallies, strict=True):
            tally.unknown_id = min(tally.unknown_id, unknown)
            tuples = source, target, self.directed
            edge_loops.inside(*tuples, batch.reached, batch.full, tally.counts, tally.broken)
            self._pass(batch, tally, placed)

    def merge(self, other: Validator[Answer] | Sequence[Tally]) -> None:
        """Take in what another validator of the same answers, or its ``tallies``, saw.

        A validator on another worker need send only its ``tallies``.
        """
        theirs = other.tallies if isinstance(other, Validator) else other
        for mine, tally in zip(self.tallies, theirs, strict=True):
            mine.merge(tally)

    def finish(self) -> list[Verdict]:
        """Outcome for each answer, after all edges have been seen."""
        return [self._verdict(number) for number in range(len(self._before))]

    def _verdict(self, number: int) -> Verdict:
        before = self._before[number]
        if not before.ok:
            return before
        which, answer = divmod(number, BATCH_ANSWERS)
        edges = self.tallies[which].edges(answer)
        problem = self._edge_problem(self._batches[which], self.tallies[which], answer)
        rule, message = problem or ("", "")
        return Verdict(before.root, problem is None, rule, message, before.reached, edges)

    def _edge_problem(self, batch: Batch, tally: Tally, answer: int) -> Problem | None:
        name = self.vertices.id_of
        if tally.unknown_id != NONE:
            return self._wording.unknown_vertex(tally.unknown_id)
        if arc := tally.first_broken(LEAVES, answer):
            return self._wording.leaves(*map(name, arc))
        if arc := tally.first_broken(SPAN, answer):
            u, v = arc
            ends = batch.value[u, answer], batch.value[v, answer]
            return self._wording.spans(name(u), name(v), *ends)
        if arc := batch.first_unconfirmed(tally, answer):
            return self._wording.no_tree_edge(*map(name, arc))
        return None

    @abstractmethod
    def _value(self, answer: Answer) -> AnyArray:
        """Levels or distances of an answer."""

    @abstractmethod
    def _tree_rules(self, answer: Answer, position: AnyArray, root: int, broken: IntArray) -> None:
        """Write the first vertex that breaks each tree rule: parent, reached, step."""

    @abstractmethod
    def _column(self, answer: Answer, ok: bool) -> AnyArray:
        """Values to be laid out; all unreached unless ``ok``."""

    @abstractmethod
    def _lay_out(self, columns: Sequence[AnyArray]) -> AnyArray:
        """Columns side by side, as the edge loops read them."""

    @abstractmethod
    def _weight(self, edges: EdgeBlock) -> AnyArray | None:
        """Weights in the dtype of the distances."""

    @abstractmethod
    def _pass(self, batch: Batch, tally: Tally, edges: Placed) -> None:
        """Run the edge loops of the kernel."""


def _first_unknown(ids: IntArray, positions: AnyArray) -> int:
    """Smallest id without a position, int64's largest if there is none."""
    if len(ids) == 0 or positions.min() >= 0:
        return NONE
    return int(ids[positions < 0].min())
