"""A progress that keeps its notes."""

from __future__ import annotations

from ooc_graph.types import NoProgress


class Said(NoProgress):
    """Keeps the notes, in the order in which they came."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
