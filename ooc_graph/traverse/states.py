"""What a rank writes down in the middle of a search, so that another attempt goes on from it.

A state does not depend on the number of ranks, or on where they have their rows. It is part of what
the search gives at its end, and steps that all ranks have bring it back.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ooc_graph.types import AnyArray


class State(NamedTuple):
    """A search that has not come to its end, as one rank knows it.

    ``facts`` are the same on all ranks, JSON-able. ``arrays`` have an element for each own row.
    """

    facts: dict[str, Any]
    arrays: tuple[AnyArray, ...]


class States(Protocol):
    """Where one rank writes its states, and finds the one to go on from."""

    def before(self) -> State | None:
        """The state that an earlier attempt came to; None: begin at the beginning."""

    def internal_of(self, rows: AnyArray) -> AnyArray:
        """Internal ids of own rows."""

    def waits(self) -> int:
        """0 if it is time to write, else 1. Ranks write if all agree: they share the sum."""

    def write(self, state: State) -> None:
        """Write a state. If that fails, no other is written, and the search goes on."""


class NoStates:
    """Nothing is written, and there is nothing to go on from."""

    def before(self) -> None:
        """Begin at the beginning."""

    def internal_of(self, rows: AnyArray) -> AnyArray:
        """Nobody asks for it."""
        raise NotImplementedError

    def waits(self) -> int:
        """It is never time."""
        return 1

    def write(self, state: State) -> None:
        """Nobody does."""
        raise NotImplementedError


NO_STATES = NoStates()
