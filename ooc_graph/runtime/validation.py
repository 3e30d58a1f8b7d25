"""Answers against the edges that they should follow from, by the threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import Lock
from typing import Any

from ooc_graph.answers.pagerank import Chances, PagerankResult
from ooc_graph.answers.result import ComponentsResult, Result
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import COMPONENT, DISTANCE, LEVEL, PAGERANK, PARENT, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.process import thread_count
from ooc_graph.threads import Threads
from ooc_graph.types import Advance, EdgeBlock, unseen
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    ComponentsAnswer,
    ComponentsValidator,
    PagerankAnswer,
    PagerankValidator,
    SsspAnswer,
    SsspValidator,
    Verdict,
    VertexIndex,
)
from ooc_graph.validate.tally import NO_ID, first_unknown

_UNIT_EDGES = 1 << 22
_BLOCK_EDGES = 1 << 15
THREAD_BYTES = 8 << 20
"""Host memory of the edges that a thread looks at."""

TREES: dict[str, tuple[Any, Any, str]] = {
    "bfs": (BfsAnswer, BfsValidator, LEVEL),
    "sssp": (SsspAnswer, SsspValidator, DISTANCE),
}
"""By kernel: the answer that its validator takes, the validator, the column beside the parents."""


def check(result: Result, source: EdgeSource, advance: Advance = unseen) -> Verdict:
    """Hold an answer against the edges that it should follow from, on all cores."""
    vertices = VertexIndex.ascending(result.on_host(VERTEX))
    (verdict,) = check_together([result], vertices, source, advance)
    return verdict


def check_together(
    results: Sequence[Result],
    vertices: VertexIndex,
    source: Any,
    advance: Advance = unseen,
) -> list[Verdict]:
    """Hold trees of one kernel, or components, or PageRank, against edges, on all threads."""
    if isinstance(results[0], ComponentsResult):
        with _naming(results[0]):
            component = ComponentsAnswer(results[0].on_host(COMPONENT), vertices)
        return check_edges(ComponentsValidator(component), source, thread_count(), advance)
    if isinstance(results[0], PagerankResult):
        with _naming(results[0]):
            return [_check_pagerank(results[0], vertices, source, advance)]
    answer, kind, measure = TREES[results[0].kernel]

    def answer_of(one: Result) -> Any:
        with _naming(one):
            return answer(one.root, one.on_host(PARENT), one.on_host(measure), vertices)

    return check_trees(kind, map(answer_of, results), len(results), source, advance)


def name_of(result: Result) -> str:
    """What messages call an answer."""
    return str(result.columns.path if isinstance(result.columns, Stored) else result)


@contextmanager
def _naming(result: Result) -> Iterator[None]:
    """Context in which a UsageError says of which answer it is."""
    try:
        yield
    except UsageError as error:
        if type(error) is not UsageError:
            raise  # that something is missing here, and not in the answer
        raise UsageError(f"{name_of(result)}: {error}") from None


def _check_pagerank(
    result: PagerankResult, vertices: VertexIndex, source: Any, advance: Advance
) -> Verdict:
    """Hold PageRank against the edges of its graph, each of which comes once in a pass."""
    asked = result.asked
    assert asked is not None
    how = asked.alpha, asked.tol, asked.iterations
    jump, landing = (_chances(one, vertices) for one in (asked.personalization, asked.dangling))
    # Without a list of their own, those without out-arcs land where others jump to.
    ends = jump, landing or jump
    answer = PagerankAnswer(result.on_host(PAGERANK), vertices, *how, *ends)
    partly = _of_part(advance, 1 / answer.passes)

    def show(arcs: Any) -> None:
        check_edges(arcs, source, thread_count(), partly)

    options = {"directed": source.directed, "weighted": asked.weighted}
    return PagerankValidator(answer, show, **options).verdict()


def _chances(chances: Chances | None, vertices: VertexIndex) -> tuple[Any, Any] | None:
    """Chances by position, of those by original id."""
    if chances is None:
        return None
    ids = chances.vertex
    positions = vertices.positions(ids)
    if (unknown := first_unknown(ids, positions)) != NO_ID:
        raise UsageError(f"{chances.name} names vertex {unknown}, which the graph does not have")
    return positions, chances.chance


def check_trees(
    kind: Any,
    answers: Iterable[Any],
    count: int,
    source: Any,
    advance: Advance = unseen,
    keep: Callable[[Any], bool] = lambda _: False,
) -> list[Verdict]:
    """Hold trees against edges, on all threads; in more than one pass if they do not fit one.

    ``kind`` is the validator of such answers, of which there are ``count``. One that the caller
    will ``keep``, for another pass, is not shown the edges: what it has taken in has no verdicts.
    """
    threads, verdicts, left = thread_count(), list[Verdict](), iter(answers)
    while len(verdicts) < count:
        rest = count - len(verdicts)
        validator = kind(left, directed=source.directed, count=rest, threads=threads)
        if not validator.taken:
            raise UsageError(f"{count} answers to validate were promised, {len(verdicts)} came")
        if keep(validator):
            return verdicts
        partly = _of_part(advance, validator.taken / count)
        verdicts += check_edges(validator, source, threads, partly)
        left = chain(validator.refused, left)
        del validator  # its memory is the next one's
    return verdicts


def _of_part(advance: Advance, part: float) -> Advance:
    """Tell of passes that only a part of the answers is in."""
    return lambda tuples: advance(tuples * part)


class Together:
    """Validators that are shown the same edges in one pass, for `check_edges` one of them."""

    def __init__(self, validators: Sequence[Any]) -> None:
        self._validators = validators

    def fork(self) -> Together:
        """Return forks of all of them."""
        return Together([one.fork() for one in self._validators])

    def block(self, edges: EdgeBlock) -> None:
        """Show all of them one block of tuples."""
        for one in self._validators:
            one.block(edges)

    def merge(self, other: Together) -> None:
        """Take in what forks saw."""
        for one, fork in zip(self._validators, other._validators, strict=True):
            one.merge(fork)

    def finish(self) -> list[Verdict]:
        """Outcome for each answer of the first, of the second, and so on."""
        return [verdict for one in self._validators for verdict in one.finish()]


def check_edges(
    validator: Any, source: Any, threads: int, advance: Advance = unseen
) -> list[Verdict]:
    """Let threads show the validator every tuple of a source; the verdicts.

    ``advance`` is called with the tuples of a block that has been looked at, by one thread at a
    time. After an error, or an interrupt, no further part of the source is begun.
    """
    units = list(source.units(_UNIT_EDGES))
    twins = [validator.fork() for _ in range(min(threads, len(units)))]
    left, turn = iter(units), Lock()

    def show(twin: Any) -> None:
        try:
            for unit in left:
                for block in source.read(unit, _BLOCK_EDGES):
                    twin.block(block)
                    with turn:
                        advance(len(block))
        finally:
            deque(left, maxlen=0)

    with Threads(max(1, len(twins))) as executor:
        try:
            list(executor.map(show, twins))
        finally:
            deque(left, maxlen=0)
    for twin in twins:
        validator.merge(twin)
    verdicts: list[Verdict] = validator.finish()
    return verdicts
