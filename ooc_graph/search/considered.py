"""Which strategy a search would take now, and why not those before it."""

from __future__ import annotations

from collections.abc import Iterator

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.request import Job, Request
from ooc_graph.model.resources import CPU, CUDA, Resources
from ooc_graph.model.strategy import OTHER_METHOD
from ooc_graph.search.candidates import candidates
from ooc_graph.shards.load import Graph


def considered(graph: Graph, request: Request, resources: Resources) -> Iterator[tuple[str, str]]:
    """Strategies by name, in the order of `plan`, and why each is refused.

    The last one is chosen, which is refused by an empty reason, unless there is none.
    """
    job = Job(graph, request, resources)
    on_cuda = resources.device.name == CUDA and not request.only_on_cpu
    for device in (CUDA, CPU) if on_cuda else (CPU,):
        for strategy in candidates(request, device):
            why = strategy.lacks(job)
            if not why:
                try:
                    strategy.reserve(job)
                except MemoryBudgetError as error:
                    why = str(error)
            if why != OTHER_METHOD:
                yield strategy.name, why
            if not why:
                return
