"""What the arrays of a graph are read through, wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.types import AnyArray


class Arrays(Protocol):
    """Where the arrays of a graph are: `Stored`, or memory (`ooc_graph.shards.in_memory`)."""

    @property
    def path(self) -> Path:
        """Folder of the store, or a name of the same form."""

    @property
    def attributes(self) -> dict[str, Any]:
        """Canonical attributes."""

    @property
    def identity(self) -> str:
        """What no other graph has that can stand at this path."""

    @property
    def content_sha256(self) -> str:
        """Hash over everything that the graph holds."""

    def spec(self, array: str) -> ArraySpec:
        """Length and dtype of an array."""

    def chunk(self, spec: ArraySpec, index: int) -> AnyArray:
        """Elements of one chunk."""

    def read(self, array: str) -> AnyArray:
        """Whole array in host memory."""
