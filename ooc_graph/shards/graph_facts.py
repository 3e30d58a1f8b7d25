"""What the attributes of a built graph say, without reading any of its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.names import IN, OUT
from ooc_graph.shards.row_loader import Arrays


@dataclass(frozen=True)
class GraphFacts:
    """A graph by its attributes; ``stored`` is where they and the arrays are."""

    stored: Arrays

    @property
    def summary(self) -> str:
        """Kind and size in words."""
        kind = "directed" if self.directed else "undirected"
        weighted = f", {self.weight_dtype} weights" if self.weighted else ""
        return f"{kind}, {self.vertices:,} vertices, {self.edges:,} edges{weighted}"

    @property
    def path(self) -> Path:
        """Folder of the store."""
        return self.stored.path

    @property
    def attributes(self) -> dict[str, Any]:
        """Canonical attributes of the store."""
        return self.stored.attributes

    @property
    def identity(self) -> str:
        """Of stores, SHA-256 over the manifest: equal for stores of equal content."""
        return self.stored.identity

    @property
    def content_sha256(self) -> str:
        """Hash over everything that the graph holds; of stores, over the manifest."""
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
        """Whether any weight is below zero, self-loops' included."""
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
        """Stored arcs of all sides, in one row order."""
        return sum(self.attributes["arcs"].values())

    @property
    def first_id(self) -> int | None:
        """First original id if ids are dense, else None."""
        first = self.attributes["first_id"]
        return None if first is None else int(first)

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides that the rows have: of out-arcs, and of in-arcs if those differ."""
        return (OUT, IN) if self.directed else (OUT,)
