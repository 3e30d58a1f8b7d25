"""Searches that are refused memory again and again, and the plans that follow."""

from __future__ import annotations

from collections.abc import Iterable

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.request import Request
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.shards.load import Graph
from ooc_graph.types import NoProgress, Progress


class InTurn:
    """Stands for what carries a search out: raises errors in turn, and keeps the plans."""

    def __init__(self, errors: Iterable[Exception]) -> None:
        self.plans: list[Plan] = []
        self._errors = list(errors)

    def run(self, found: Plan) -> Plan:
        """The plan, if no errors are left."""
        self.plans.append(found)
        if self._errors:
            raise self._errors.pop(0)
        return found


def followed(
    first: Plan, workplace: Workplace, *errors: Exception, progress: Progress | None = None
) -> list[Plan]:
    """The plans by which a search is carried out that is refused by these errors."""
    in_turn = InTurn(errors)
    execute(first, workplace, progress or NoProgress(), in_turn.run)
    return in_turn.plans


def all_in_turn(graph: Graph, request: Request, workplace: Workplace) -> list[Plan]:
    """All plans for a search, if the memory of each device is refused; of the CPU the first."""
    in_turn = InTurn(MemoryBudgetError("refused") for _ in range(16))
    first = plan_at(workplace, graph, request)
    try:
        execute(first, workplace, NoProgress(), in_turn.run)
    except MemoryBudgetError:
        return in_turn.plans
    raise AssertionError("no end")
