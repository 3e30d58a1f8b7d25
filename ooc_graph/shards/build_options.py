"""What the caller of a build may choose, and what is reported afterwards."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.shards.tally import Packings, Tally, packings_of
from ooc_graph.types import DEAL_BLOCK


@dataclass
class BuildReport:
    """What a build did; nothing of it is part of the store.

    ``stages`` are (name, start, stop) in seconds since the build began; ``edges`` tuples read,
    ``arcs`` those stored in one row order. ``read_s`` are seconds of the first pass in which the
    source gave (a generator: made) tuples; those of several tasks at the same time count once.
    ``run_bytes`` a device's build wrote to sorted runs.
    """

    stages: list[tuple[str, float, float]] = field(default_factory=list)
    edges: int = 0
    arcs: int = 0
    read_s: float = 0.0
    manifest: Manifest | None = None
    run_bytes: int = 0
    _begun: float = field(default_factory=perf_counter)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Record a stage."""
        start = perf_counter() - self._begun
        yield
        self.stages.append((name, start, perf_counter() - self._begun))

    def add(self, seconds: Mapping[str, float]) -> None:
        """Record stages that followed each other, and have just ended."""
        start = perf_counter() - self._begun - sum(seconds.values())
        for name, each in seconds.items():
            self.stages.append((name, start, start := start + each))

    @property
    def elapsed_s(self) -> float:
        """Seconds up to the end of the last stage."""
        return self.stages[-1][2] if self.stages else 0.0


MOST_SHARDS = 1 << 20
"""More than the largest graph gets, and about as many as anybody's files are counted in."""
FEW_SHARDS = 256
"""So many are soon written, whether there are rows for them or not."""


@dataclass(frozen=True)
class BuildOptions:
    """What the caller may choose.

    ``rows`` are ``hub``, ``light``, ``both``, or None: both if there are weights, else hub.
    ``shards`` is a power of two, or None: by the size of the graph. ``compress`` packs offsets,
    neighbours and integer weights into the bits that they need. A build that is timed begins
    ``anew``, whatever is there of one that was stopped.
    """

    rows: str | None = None
    shards: int | None = None
    overwrite: bool = False
    compress: bool = False
    anew: bool = False

    def __post_init__(self) -> None:
        if self.shards is None:
            return
        try:
            shards = operator.index(self.shards)
        except TypeError:
            shards = 0
        if shards < 1 or shards & (shards - 1):
            raise UsageError(f"--shards {self.shards}: give a power of two")
        if shards > MOST_SHARDS:
            raise UsageError(f"--shards {self.shards}: give at most {MOST_SHARDS}")
        # Python's own integer, whatever type it had.
        object.__setattr__(self, "shards", shards)

    def require_filled(self, rows: int | None) -> None:
        """Refuse more shards than rows can be dealt to, as each has files of its own.

        ``rows`` is how many there are, or may be at most; None: not known yet.
        """
        if self.shards is None or rows is None:
            return
        blocks = -(-rows // DEAL_BLOCK)
        most = max(FEW_SHARDS, 1 << max(blocks - 1, 0).bit_length())
        if self.shards > most:
            raise UsageError(
                f"--shards {self.shards}: give at most {most}; vertices with edges are dealt to "
                f"shards by {DEAL_BLOCK:,}, and there are {rows:,} of them at most"
            )

    def orders(self, weighted: bool) -> tuple[str, ...]:
        """Row orders to store."""
        wanted = self.rows or ("both" if weighted else HUB)
        if wanted not in (HUB, LIGHT, "both"):
            raise UsageError(f"--rows {wanted}: choose hub, light or both")
        if not weighted and wanted != HUB:
            raise UsageError(
                f"--rows {wanted}: the input has no weights, only hub rows are possible"
            )
        return (HUB, LIGHT) if wanted == "both" else (wanted,)

    def packings(
        self, rows: int, arcs: int, weight_dtype: np.dtype[Any] | None, total: Tally
    ) -> Packings:
        """How columns are packed."""
        return packings_of(rows, arcs, weight_dtype, total) if self.compress else {}
