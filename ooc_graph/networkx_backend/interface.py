"""The backend that networkx calls: its functions, conversions, and which calls it takes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from numbers import Real
from typing import Any

import networkx as nx

from ooc_graph.garbage import uncollected
from ooc_graph.networkx_backend import (
    all_nodes,
    components,
    generic,
    measures,
    ranking,
    several,
    single,
)
from ooc_graph.networkx_backend.converted import ConvertedGraph, converted
from ooc_graph.networkx_backend.info import FUNCTIONS, NAME
from ooc_graph.networkx_backend.node_graph import NodeGraph, OwnGraph
from ooc_graph.shards.load import Graph

FEWEST_FROM_ALL, FEWEST_FROM_ONE, FEWEST_BETWEEN_TWO = 300, 3_000, 100_000
"""Nodes from which on a call is quicker than networkx' own: one that searches from all nodes, from
one, conversion included, or between two, where the graph is converted already."""

_LEFT_TO_NETWORKX = {
    "attr": "attr changes the graph",
    "e": "eccentricities are given",
    "nstart": "iterations begin elsewhere",
    "sp": "shortest paths are given",
    "usebounds": "usebounds=True needs a few searches alone",
}

_LEFT_OUT = {"G", "heuristic", *_LEFT_TO_NETWORKX}
"""Arguments that functions here do not have: they change no answer, or `can_run` refuses them."""


class Backend:
    """What networkx loads by the entry point ``networkx.backends``."""

    def __init__(self) -> None:
        modules = (all_nodes, components, generic, measures, ranking, several, single)
        for name in FUNCTIONS:
            (function,) = (vars(module)[name] for module in modules if name in vars(module))
            setattr(self, name, _called(name, function))

    @staticmethod
    def convert_from_nx(
        graph: Any, *, edge_attrs: Mapping[str, Any] | None = None, **_: Any
    ) -> ConvertedGraph:
        """A networkx graph for searches, with the weights among ``edge_attrs``.

        NotImplementedError if it has no nodes, or weights that are not finite numbers.
        """
        return converted(graph, edge_attrs)

    @staticmethod
    def convert_to_nx(result: Any, *, name: str | None = None) -> Any:  # noqa: ARG004
        """A networkx graph of one of ours; what is no graph as it is."""
        if isinstance(result, (Graph, NodeGraph)):
            return _wrapped(result).to_networkx()
        return result

    @staticmethod
    def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
        """Whether a call gives what networkx gives; if not, why."""
        if name not in FUNCTIONS:
            return f"ooc_graph has no {name}"
        return next(_reasons(name, _arguments(name, args, kwargs)), True)

    @staticmethod
    def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
        """Whether a call is quicker than networkx' own; if not, why."""
        given = _arguments(name, args, kwargs)
        graph = given["G"]
        if not isinstance(graph, nx.Graph):
            return True
        sources = sum(given.get(end) is not None for end in ("source", "sources", "target"))
        if sources == 2 and NAME not in (graph.__networkx_cache__ or {}).get("backends", {}):
            return "a path between two nodes is found before the graph is converted"
        from_all = name in vars(all_nodes) or name in vars(measures)
        from_all = from_all or (not sources and name in vars(generic))
        fewest = FEWEST_FROM_ALL if from_all else FEWEST_FROM_ONE
        fewest = FEWEST_BETWEEN_TWO if sources == 2 else fewest
        return len(graph) >= fewest or f"the graph has fewer than {fewest:,} nodes"


def _reasons(name: str, given: dict[str, Any]) -> Iterator[str]:
    """Why a call is left to networkx."""
    for argument, reason in _LEFT_TO_NETWORKX.items():
        if given.get(argument) not in (None, False):
            yield reason
    if callable(given.get("weight")) or callable(given.get("distance")):
        yield "weights are a function"
    cutoff = given.get("cutoff")
    if cutoff is not None and (not isinstance(cutoff, Real) or math.isnan(cutoff)):
        yield "cutoff is no number"
    if name == "pagerank" and given["G"].is_multigraph():
        yield "networkx counts parallel edges"
    if any(isinstance(value, Iterator) for value in given.values()):
        yield "an argument can be read once only"


def _wrapped(graph: Graph | NodeGraph) -> NodeGraph:
    return graph if isinstance(graph, NodeGraph) else OwnGraph(graph)


def _called(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = _arguments(name, args, kwargs)
        own = {word: value for word, value in given.items() if word not in _LEFT_OUT}
        # The collector would look at all dictionaries of networkx' graph again and again.
        with uncollected():
            return function(_wrapped(given["G"]), **own)

    return called


def _arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call by networkx' names."""
    return _signature(name).bind(*args, **kwargs).arguments


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(nx, name))


backend = Backend()
