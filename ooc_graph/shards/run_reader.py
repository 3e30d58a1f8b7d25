"""Runs of ranges of rows, read by threads some pieces ahead of who sorts them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from ooc_graph.shards.range_runs import Part, RangeRuns
from ooc_graph.shards.workforce import Workforce, stop_all
from ooc_graph.types import AnyArray

MOST_ARCS, LEAST_ARCS = 1 << 20, 1 << 12
"""Arcs of a piece."""
SLOT_PART = 4
"""Parts of a slot's memory: a piece, another that waits; the other half is for chunks."""

Piece = tuple[AnyArray, AnyArray | None]


@dataclass(frozen=True)
class _Begun:
    """A piece that a thread reads, and whose range it is of."""

    of: tuple[str, int]
    piece: Future[Piece]


class RunReader:
    """Reads all ranges once, in the order given by side and number."""

    def __init__(
        self, runs: RangeRuns, workforce: Workforce, order: Sequence[tuple[str, int]]
    ) -> None:
        self._runs, self._workforce = runs, workforce
        slot = workforce.budget.slot_bytes(0)
        self._arcs = max(LEAST_ARCS, min(MOST_ARCS, slot // SLOT_PART // runs.arc_bytes))
        self._ahead = workforce.budget.slots + 1
        self._todo = self._pieces(order)
        self._begun: deque[_Begun] = deque()

    def _pieces(
        self, order: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[tuple[str, int], Part, int]]:
        for of in order:
            for part in self._runs.parts(*of):
                for start in range(0, part.arcs, self._arcs):
                    yield of, part, start

    def pieces(self, side: str, number: int) -> Generator[Piece, None, None]:
        """Keys and words of one range, run by run, and then its files are gone."""
        while self._next_is((side, number)):
            yield self._begun.popleft().piece.result()
        self._runs.remove(side, number)

    def _next_is(self, of: tuple[str, int]) -> bool:
        """Whether the next piece is of this range; more are begun."""
        while len(self._begun) <= self._ahead and (found := next(self._todo, None)):
            owner, part, start = found
            stop = min(start + self._arcs, part.arcs)
            future = self._workforce.executor.submit(part.read, start, stop)
            self._begun.append(_Begun(owner, future))
        return bool(self._begun) and self._begun[0].of == of

    def stop(self) -> None:
        """Read no more; what is being read is waited for."""
        stop_all(self._workforce, [begun.piece for begun in self._begun], [Part.read.__name__])
        self._begun.clear()
