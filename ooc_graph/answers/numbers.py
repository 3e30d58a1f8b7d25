"""What each source's distances reduced to, made source by source without a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.answers.reductions import Reduced


class SourceNumbers:
    """Reductions of some sources.

    Parameters
    ----------
    found
        What each source's distances reduced to; None where that is put there later.
    """

    def __init__(self, found: Sequence[Reduced | None]) -> None:
        self._found = list(found)

    def put(self, begin: int, found: Sequence[Reduced]) -> None:
        """Fill in what the sources from one on reduced to."""
        self._found[begin : begin + len(found)] = found

    def part(self, start: int, stop: int) -> SourceNumbers:
        """Some of the sources, as far as they are there."""
        return SourceNumbers(self._found[start:stop])

    def reduced(self, reduce: str) -> list[Reduced]:  # noqa: ARG002
        """What each source's distances reduced to, by the reduction they were made for."""
        found = [one for one in self._found if one is not None]
        if len(found) < len(self._found):
            raise AssertionError(f"{len(self._found) - len(found)} sources are not reduced yet")
        return found
