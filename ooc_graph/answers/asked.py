"""What is asked of many sources, and how the answers are stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ooc_graph.answers.reductions import HISTOGRAM, REDUCTIONS, Bins, finite
from ooc_graph.errors import UsageError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP, DISTANCE, LEVEL, MULTI_SOURCE_BFS, PARENT
from ooc_graph.types import INT64_UNREACHED, IntArray

TOGETHER = {False: 64, True: 256}
"""Sources of a unit, by whether hops are counted: as many as search together."""


@dataclass(frozen=True)
class Asked:
    """What is asked of every source.

    ``targets``, int64, are positions among all vertices that distances are wanted to; None: all.
    The ``cutoff`` is the largest distance that counts as reached; None: any. ``reduce``, one of
    `REDUCTIONS`, is instead of the distances, ``bins`` those of histograms. With ``hops`` distances
    are levels of a BFS. ``has_array``: they go to memory of the caller, so that an answer needs
    none.
    """

    targets: IntArray | None = None
    cutoff: float | None = None
    reduce: str | None = None
    parents: bool = False
    bins: Bins = field(default_factory=Bins)
    hops: bool = False
    has_array: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be carried out, with a UsageError."""
        if self.reduce is not None and self.reduce not in REDUCTIONS:
            raise UsageError(f"reduce {self.reduce!r}: choose {', '.join(REDUCTIONS)}")
        if self.reduce is not None and self.parents:
            raise UsageError("a reduction has no parents: ask for one of them")
        if self.hops and self.parents:
            raise UsageError("BFS from many sources gives no parents")
        if self.has_array and (self.parents or self.reduce is not None):
            what = "parents" if self.parents else "what a reduction gives"
            raise UsageError(f"into= has room for distances, not for {what}: ask for one of them")
        # Python's own truth value and number, which go into the key and the attributes as JSON.
        object.__setattr__(self, "parents", bool(self.parents))
        if self.cutoff is not None:
            cutoff = finite(self.cutoff, "cutoff: give a finite distance, a number")
            object.__setattr__(self, "cutoff", cutoff)

    @property
    def kernel(self) -> str:
        """Name of the search."""
        return MULTI_SOURCE_BFS if self.hops else APSP


def largest_reached(cutoff: float, dtype: np.dtype[Any]) -> Any:
    """The cutoff as a distance of this type, or the nearest that there is."""
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return dtype.type(min(max(cutoff, -most), most))
    bounds = np.iinfo(dtype)
    return dtype.type(min(max(math.floor(cutoff), int(bounds.min)), int(bounds.max)))


def own_columns(sources: IntArray, asked: Asked) -> IntArray:
    """Column of each source, by its position; -1 if it has none, or a cutoff leaves it out."""
    if asked.cutoff is not None and asked.cutoff < 0:
        return np.full(len(sources), -1)
    if asked.targets is None:
        return sources
    # Sources are few at times, targets are not.
    order = np.argsort(sources, kind="stable")
    nearest = np.minimum(np.searchsorted(sources, asked.targets, sorter=order), len(sources) - 1)
    columns = (
        np.flatnonzero(sources[order[nearest]] == asked.targets) if len(sources) else nearest[:0]
    )
    found = np.full(len(sources), -1)
    found[order[nearest[columns]]] = columns
    return found


def answer_specs(
    asked: Asked, sources: int, width: int, dtype: np.dtype[Any]
) -> tuple[ArraySpec, ...]:
    """How distances are stored, and parents if wanted: chunks of the same whole sources.

    None has more sources than search together if memory is ample, so that a run which is killed
    has lost no other batch.
    """
    together = TOGETHER[asked.hops]
    distance = ArraySpec(LEVEL if asked.hops else DISTANCE, sources, dtype, width)
    if asked.hops and asked.reduce is not None:
        # Nothing is written but records, and what they record takes little time.
        return (replace(distance, chunk_rows=together),)
    if not asked.parents:
        return (replace(distance, chunk_rows=_sources_a_chunk(distance.chunk, asked, sources)),)
    parent = ArraySpec(PARENT, sources, np.dtype(np.int64), width)
    rows = _sources_a_chunk(min(distance.chunk, parent.chunk), asked, sources)
    return replace(distance, chunk_rows=rows), replace(parent, chunk_rows=rows)


def _sources_a_chunk(most: int, asked: Asked, sources: int) -> int:
    """As many as search together; if fewer, so many that a batch still has whole chunks."""
    together = TOGETHER[asked.hops]
    if most >= min(together, sources):
        return min(most, together)
    return max(1, together >> (-(-together // most) - 1).bit_length())


def is_narrow(asked: Asked) -> bool:
    """Whether answers are distances to some targets alone, so that they may be few for a source."""
    return asked.targets is not None and asked.reduce is None and not asked.parents


def answer_attributes(asked: Asked, graph: str, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Canonical attributes of a stored result."""
    facts: dict[str, Any] = {"kernel": asked.kernel, "graph_sha256": graph, "cutoff": asked.cutoff}
    if asked.reduce is None:
        far = "+inf" if dtype.kind == "f" else INT64_UNREACHED
        return facts | {"unreached": -1 if asked.hops else far}
    facts |= {"reduce": asked.reduce, "targets": "some" if asked.targets is not None else "all"}
    if asked.reduce == HISTOGRAM:
        facts["bin_width"] = asked.bins.width_for(dtype)
    return facts
