"""What each source's distances reduced to, made source by source without a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.answers.pairs import PerSource
from ooc_graph.answers.reductions import Reduced


class SourceNumbers(PerSource):
    """Reductions of some sources; None for those that are put there later."""

    of_each = ("_found",)

    def __init__(self, found: Sequence[Reduced | None]) -> None:
        self._found = list(found)

    def put(self, begin: int, found: Sequence[Reduced]) -> None:
        """Fill in what the sources from one on reduced to."""
        self._found[begin : begin + len(found)] = found

    def reduced(self, reduce: str) -> list[Reduced]:  # noqa: ARG002
        """What each source's distances reduced to, by the reduction they were made for."""
        found = [one for one in self._found if one is not None]
        if len(found) < len(self._found):
            raise AssertionError(f"{len(self._found) - len(found)} sources are not reduced yet")
        return found
