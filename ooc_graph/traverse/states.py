"""What a rank writes down in the middle of a search, so that another attempt goes on from it.

A state does not depend on the number of ranks, or on where they have their rows. It is part of what
the search gives at its end, and steps that all ranks have bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ooc_graph.types import AnyArray, Dealing


class State(NamedTuple):
    """What one rank is to know of a search that has not come to its end.

    ``facts`` are the same on all ranks, JSON-able. ``arrays`` have an element for each own row, of
    which ``dealing`` says which vertices they are.
    """

    facts: dict[str, Any]
    arrays: tuple[AnyArray, ...]
    dealing: Dealing


class States:
    """Where one rank writes its states, and finds the one to go on from: nowhere, in this class."""

    writes = False
    """Whether to search so that some may be written, by supersteps; the same on all ranks."""

    def before(self) -> State | None:
        """The state that an earlier attempt came to; None: begin at the beginning."""
        return None

    def waits(self) -> int:
        """0 if it is time to write, else 1. Ranks write if all agree: they share the sum."""
        return 1

    def write(self, facts: dict[str, Any], made: Callable[[], Sequence[AnyArray]]) -> None:
        """Write a state, whose arrays are ``made`` now.

        If memory or the system refuses, no other is written, and the search goes on.
        """


NO_STATES = States()
