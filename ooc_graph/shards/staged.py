"""A binary copy of an input that is dear to read twice, made by the first pass over it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, SourceDefaults, Unit, ranges, units_of
from ooc_graph.layout.blocks import byte_view, read_at
from ooc_graph.layout.checkpoints import SPILL, Checkpoints, NoCheckpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.spilled import SpillWriter
from ooc_graph.shards.plan import BLOCK_EDGES
from ooc_graph.types import AnyArray, EdgeBlock, IntArray

STAGED = f"{SPILL}/staged"
_COLUMNS = ("source", "target", "weight")


@dataclass(frozen=True)
class Part:
    """One staged unit: columns of 8-byte numbers in files of their own, called as ``stem``.

    ``spans`` are (tuples, weight dtype name) of consecutive slices; integer and float slices may
    follow each other in a text column until the whole column is known.
    """

    stem: str
    edges: int
    spans: tuple[tuple[int, str], ...]


def stage_unit(source: EdgeSource, unit: Unit, checkpoints: Checkpoints | NoCheckpoints) -> Part:
    """Copy one unit of ``source`` into binary columns, unless a checkpoint has them."""
    stem, facts = f"{STAGED}/{unit.index:06d}", dict[str, Any]()

    def write(folder: Path) -> list[FileEntry]:
        spans: list[tuple[int, str]] = []
        with contextlib.ExitStack() as stack:
            files = {
                name: stack.enter_context(SpillWriter(folder, f"{stem}.{name}"))
                for name in _COLUMNS
            }
            for block in source.read(unit, BLOCK_EDGES):
                files["source"].write(block.source)
                files["target"].write(block.target)
                _stage_weights(block, files["weight"], spans)
        facts["spans"] = spans
        return [file.entry for file in files.values()]

    done = checkpoints.once(f"staged-{unit.index:06d}", write, facts)
    spans = tuple((count, name) for count, name in done.facts["spans"])
    return Part(str(checkpoints.folder / stem), sum(count for count, _ in spans), spans)


def _stage_weights(block: EdgeBlock, file: SpillWriter, spans: list[tuple[int, str]]) -> None:
    name = "none"
    if block.weight is not None:
        name = block.weight.dtype.name
        # Eight bytes each, whatever the dtype, so that a tuple's weight is found by its number.
        wide = block.weight if block.weight.itemsize == 8 else block.weight.astype(np.float64)
        file.write(wide)
    if spans and spans[-1][1] == name:
        spans[-1] = (spans[-1][0] + len(block), name)
    else:
        spans.append((len(block), name))


def column_dtype(parts: Sequence[Part]) -> np.dtype[Any] | None:
    """Type of the whole weight column: one float64 anywhere makes it float64."""
    names = {name for part in parts for count, name in part.spans if count}
    if not names or names == {"none"}:
        return None
    return np.dtype(names.pop()) if len(names) == 1 else np.dtype(np.float64)


@dataclass(frozen=True)
class StagedSource(SourceDefaults):
    """`EdgeSource` over staged parts; units may begin and end inside parts.

    ``lister`` lists vertices; None if it cannot.
    """

    directed: bool
    lister: EdgeSource | None
    parts: tuple[Part, ...]
    weight_dtype: np.dtype[Any] | None
    id_range: tuple[int, int] | None = None
    rereadable: bool = field(default=True, init=False)

    @property
    def edges(self) -> int:
        """Number of tuples."""
        return sum(part.edges for part in self.parts)

    def units(self, edges_per_unit: int) -> list[Unit]:
        """Ranges of tuple numbers."""
        return units_of(ranges(0, self.edges, edges_per_unit))

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Tuples of a range, in order."""
        first = 0
        for part in self.parts:
            start, stop = max(unit.start - first, 0), min(unit.stop - first, part.edges)
            for begin in range(start, stop, block_edges):
                yield self._block(part, begin, min(begin + block_edges, stop))
            first += part.edges

    def _block(self, part: Part, start: int, stop: int) -> EdgeBlock:
        return EdgeBlock(
            _column(part, "source", np.int64, start, stop),
            _column(part, "target", np.int64, start, stop),
            self._weights(part, start, stop),
        )

    def _weights(self, part: Part, start: int, stop: int) -> AnyArray | None:
        if self.weight_dtype is None:
            return None
        out, first = np.empty(stop - start, self.weight_dtype), 0
        for count, name in part.spans:
            begin, end = max(start, first), min(stop, first + count)
            if begin < end:
                stored = np.int64 if np.dtype(name).kind == "i" else np.float64
                out[begin - start : end - start] = _column(part, "weight", stored, begin, end)
            first += count
        return out

    def vertex_blocks(self) -> Iterator[IntArray]:
        """Listed vertices."""
        return iter(()) if self.lister is None else self.lister.vertex_blocks()

    def describe(self) -> dict[str, Any]:
        """Staged data have no description of their own; the input's is in the store."""
        raise NotImplementedError("describe the source that was staged")


def _column(part: Part, name: str, dtype: Any, start: int, stop: int) -> AnyArray:
    data = np.empty(stop - start, dtype)
    with Path(f"{part.stem}.{name}").open("rb", buffering=0) as file:
        read_at(file.fileno(), byte_view(data), start * 8)
    return data
