"""Searches by all ranks of a graph in this process, through the exchange that is the oracle."""

from __future__ import annotations

from typing import Any

import ooc_graph as og
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import LOCAL, Reservation
from ooc_graph.model.task import SearchTask
from ooc_graph.search.ranks import MakeRanks
from ooc_graph.search.single import result_of
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.strategies.cpu.in_memory import InMemory
from ooc_graph.strategies.cuda.in_memory import InMemory as OnDevice
from ooc_graph.strategies.ranks import Ranks
from tests import local_exchange


def by_ranks(
    graph: og.Graph, kernel: str, root: int | None = None, device: str = "cpu", **asked: Any
) -> Any:
    """The answer of ``bfs`` or ``sssp`` from a vertex with arcs, or of one without a root."""
    strategy = Ranks(InMemory() if device == "cpu" else OnDevice())
    reserved = Reservation(strategy.name, exchange=LOCAL)
    whom = str(graph.path), graph.identity, Request(kernel, **asked)
    task = SearchTask(*whom, root, None, strategy, reserved)
    algorithm, shards = ALGORITHMS[kernel], range(graph.shards)
    with MakeRanks(task, algorithm.start)(shards) as (coroutines, shared):
        found, _ = local_exchange.run([coroutines[s] for s in shards], shared, graph.shards)
    return result_of(kernel, root, algorithm.joined(task, graph, found))
