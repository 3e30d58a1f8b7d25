"""The attributes of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.layout.html_table import html_table
from ooc_graph.layout.names import IN, OUT
from ooc_graph.shards.row_loader import Arrays


@dataclass(frozen=True)
class GraphFacts:
    """The attributes of a graph; ``stored`` has them and the arrays.

    Functions of networkx accept it, because they find their backend by its name.
    """

    __networkx_backend__: ClassVar[str] = "ooc_graph"
    stored: Arrays

    def __post_init__(self) -> None:
        """Refuse a path: the first search would fail on it."""
        if isinstance(self.stored, (str, PathLike)):
            raise UsageError(f"Graph: open a store with ooc_graph.open({str(self.stored)!r})")

    def is_directed(self) -> bool:
        """Whether edges have a direction; part of networkx' interface."""
        return self.directed

    def is_multigraph(self) -> bool:
        """False: of parallel edges the lightest is kept; part of networkx' interface."""
        return False

    @property
    def _kind(self) -> str:
        return "directed" if self.directed else "undirected"

    @property
    def summary(self) -> str:
        """Kind and size in words."""
        weighted = f", {self.weight_dtype} weights" if self.weighted else ""
        return f"{self._kind}, {self.vertices:,} vertices, {self.edges:,} edges{weighted}"

    def _repr_html_(self) -> str:
        rows = [
            ("path", self.where),
            ("vertices", f"{self.vertices:,}"),
            ("edges", f"{self.edges:,}, {self._kind}"),
            ("weights", self.weight_dtype or "none"),
            ("row orders", ", ".join(self.attributes["row_orders"])),
            ("shards", self.shards),
        ]
        return html_table("Graph", rows)

    @property
    def path(self) -> Path:
        """Folder of the store."""
        return self.stored.path

    @property
    def where(self) -> str:
        """Where it is, as people are told."""
        return str(self.path)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.where

    @property
    def attributes(self) -> dict[str, Any]:
        """Canonical attributes of the store."""
        return self.stored.attributes

    @property
    def identity(self) -> str:
        """For stores, SHA-256 over the manifest: equal for stores of equal content."""
        return self.stored.identity

    @property
    def content_sha256(self) -> str:
        """Hash over everything in the graph; for stores, over the manifest."""
        return self.stored.content_sha256

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return bool(self.attributes["directed"])

    @property
    def weighted(self) -> bool:
        """Whether weights are stored."""
        return bool(self.attributes["weighted"])

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:
        """Type of the stored weights."""
        name = self.attributes["weight_dtype"]
        return None if name is None else np.dtype(name)

    @property
    def has_negative_weights(self) -> bool:
        """Whether any weight is below zero, those of self-loops included."""
        lightest = self.attributes["lightest"]
        return lightest is not None and lightest < 0

    @property
    def vertices(self) -> int:
        """Vertices that the input has or declares, isolated ones included."""
        return int(self.attributes["vertices"])

    @property
    def rows(self) -> int:
        """Vertices with at least one arc: internal ids are 0 … rows - 1."""
        return int(self.attributes["rows"])

    @property
    def shards(self) -> int:
        """Number of virtual shards."""
        return int(self.attributes["shards"])

    @property
    def edges(self) -> int:
        """Input tuples, self-loops and duplicates included."""
        return int(self.attributes["edges"])

    @property
    def arcs(self) -> int:
        """Arcs: two for each undirected edge; no self-loops, and no duplicates."""
        return int(self.attributes["arcs"][OUT])

    @property
    def stored_arcs(self) -> int:
        """Arcs of all sides of the rows: those of a directed graph are there twice."""
        return sum(self.attributes["arcs"].values())

    @property
    def first_id(self) -> int | None:
        """First original id if ids are dense, otherwise None."""
        first = self.attributes["first_id"]
        return None if first is None else int(first)

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides of the rows: out-arcs, and in-arcs if they differ."""
        return (OUT, IN) if self.directed else (OUT,)
