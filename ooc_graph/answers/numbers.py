"""What each source's distances reduced to, made source by source without a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.answers.reductions import Reduced


class SourceNumbers:
    """Reductions of some sources.

    Parameters
    ----------
    found
        What each source's distances reduced to.
    """

    def __init__(self, found: Sequence[Reduced]) -> None:
        self._found = list(found)

    def part(self, start: int, stop: int) -> SourceNumbers:
        """Some of the sources."""
        return SourceNumbers(self._found[start:stop])

    def reduced(self, reduce: str) -> list[Reduced]:  # noqa: ARG002
        """What each source's distances reduced to, by the reduction they were made for."""
        return self._found
