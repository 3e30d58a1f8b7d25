"""What a caller asks for of a graph, and what there is to do it with."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.answers.asked import Asked
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.request import Many, Request
from ooc_graph.model.resources import Resources
from ooc_graph.shards.load import Graph


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
        return f"{self.kernel} on {self.graph.path}"

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
