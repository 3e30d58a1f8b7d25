"""A progress that keeps its notes, and what is done of its stages."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ooc_graph.types import NoProgress, StageProgress


class Said(NoProgress):
    """Keeps the notes, in the order in which they came, and how stages moved, by name."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: dict[str, Stage] = {}

    def stage(
        self, name: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[StageProgress]:
        del unit
        self.stages[name] = Stage(total)
        return nullcontext(self.stages[name])

    def note(self, text: str) -> None:
        self.notes.append(text)


class Stage:
    """Keeps how a stage moved."""

    def __init__(self, total: int | None) -> None:
        self.total, self.amounts = total, list[float]()

    def advance(self, amount: float) -> None:
        self.amounts.append(amount)
