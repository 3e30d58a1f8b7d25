"""A search as a caller asks for it, and what there is to do it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.within import Within
from ooc_graph.errors import UsageError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP, FROM_ONE, MULTI_SOURCE_BFS
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.shards.load import Graph

ON_CUDA = (*FROM_ONE, APSP, MULTI_SOURCE_BFS)
"""Kernels that CUDA devices have."""
CUDA_FIXED_BYTES = 32 << 20
"""Device memory that a search takes whatever the graph."""

GRAPH500 = "graph500"
"""What plans call the main job, which has searches of several kernels."""

ROWS, EDGES = "rows", "edges"
"""Methods: over rows of arcs, or over a list of edges."""
METHODS = (ROWS, EDGES)

ANY, SCHEDULER = "auto", "scheduler"
"""Exchanges that can be asked for: any or none; between the ranks of a cluster."""
EXCHANGES = (ANY, SCHEDULER)


@dataclass(frozen=True)
class Many:
    """What is asked of many sources."""

    # How distances, and parents if wanted, are stored: in chunks of the same whole sources.
    specs: tuple[ArraySpec, ...]
    asked: Asked  # what is asked of every source
    in_memory: bool  # whether the answer stays in the memory of the process that asks


@dataclass(frozen=True)
class Request:
    """What is searched, and how the caller wants it done."""

    # ``bfs``, ``sssp``, ``components``, ``pagerank`` or ``weighted_pagerank``; of many sources
    # ``apsp`` or ``multi_source_bfs``.
    kernel: str
    exchange: str = ANY  # ``auto``, or ``scheduler`` for the ranks of a cluster
    method: str = ROWS  # ``rows`` or ``edges``
    answer_bytes: int = 0  # host memory of an answer that is not written
    on_device: bool = False  # whether the answer stays on the CUDA device
    on_worker: bool = False  # whether it stays on the Dask worker that finds it
    many: Many | None = None  # what is asked of many sources; None: one is searched from
    within: Within | None = None  # how far one source is searched from; None: everywhere
    # What an algorithm is given besides: a frozen dataclass, whose ``repr`` says all of it.
    given: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether neither a method of its own nor ranks are asked for."""
        return self.method == ROWS and self.exchange == ANY

    @property
    def only_on_cpu(self) -> str:
        """Why no CUDA device does this; empty if one may."""
        if self.kernel not in ON_CUDA:
            what = "components are" if self.kernel == "components" else f"{self.kernel} is"
            return f"{what} found on the CPU only: use --device cpu"
        if self.method == EDGES:
            return "method 'edges' searches on the CPU only: use --device cpu"
        return ""

    def require_together(self, wanted: str) -> Request:
        """The request, for a ``wanted`` device: ``auto``, ``cpu`` or ``cuda``.

        UsageError: a name is unknown, or something does not go together on any graph.
        """
        if self.method not in METHODS:
            raise UsageError(f"method {self.method!r}: choose {' or '.join(METHODS)}")
        if self.exchange not in EXCHANGES:
            raise UsageError(f"exchange {self.exchange!r}: choose {', '.join(EXCHANGES)}")
        if self.only_on_cpu and wanted == CUDA:
            raise UsageError(self.only_on_cpu)
        if self.method == EDGES and self.exchange != ANY:
            raise UsageError(
                f"method 'edges' searches on one rank, and the exchange {self.exchange!r} spreads "
                "the graph over several; use the method 'rows', or leave the exchange out"
            )
        return self


@dataclass(frozen=True)
class Job:
    """A search of a graph as it is planned; some members are of many sources alone."""

    graph: Graph
    request: Request
    resources: Resources

    @property
    def kernel(self) -> str:
        """As of the request."""
        return self.request.kernel

    @property
    def what(self) -> str:
        """The search in words."""
        return f"{self.kernel} on {self.graph.name}"

    @property
    def many(self) -> Many:
        """What is asked of many sources."""
        assert self.request.many is not None
        return self.request.many

    @property
    def asked(self) -> Asked:
        """What is asked of every source."""
        return self.many.asked

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """How distances, and parents if wanted, are stored."""
        return self.many.specs

    @property
    def spec(self) -> ArraySpec:
        """How distances are stored."""
        return self.specs[0]

    @property
    def in_memory(self) -> bool:
        """Whether the answer stays in the memory of the process that asks."""
        return self.many.in_memory
