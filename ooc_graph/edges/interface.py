"""What every source of edges offers: independent units of work that yield blocks of tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ooc_graph.edges.bytestream import file_record
from ooc_graph.errors import InputError
from ooc_graph.types import EdgeBlock, IntArray


@dataclass(frozen=True)
class Unit:
    """A part of a source that can be read alone, in any order, on any worker.

    ``index`` is its position in ``EdgeSource.units()``, ``path`` the file that it is part of, if
    there is one. ``start`` and ``stop`` are byte offsets, numbers of parts, or edge numbers: these
    if the source is rereadable, for a build borrows memory for so many.
    """

    index: int
    start: int
    stop: int
    path: str | None = None


class EdgeSource(Protocol):
    """Edges in blocks. Implementations are small picklable objects without data."""

    @property
    def directed(self) -> bool:
        """Whether a tuple (u, v) is an arc from u to v only."""

    @property
    def weighted(self) -> bool:
        """Whether blocks have weights."""

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:
        """Type of the weights if it is known before reading: float32, float64 or int64.

        None if unweighted, or if the first pass decides. Then integer blocks come as int64, and
        blocks with any other number as float64; one float64 block makes the column float64.
        """

    @property
    def rereadable(self) -> bool:
        """Whether reading twice is cheaper than staging a binary copy (generators, .npy)."""

    @property
    def id_range(self) -> tuple[int, int] | None:
        """First id and count, if the input declares its vertices as a dense range of ids.

        Matrix Market, DIMACS and METIS declare (1, n), Kronecker (0, 2**scale). Every id in a block
        is then inside the range; the reader refuses others. None: the vertices are those that the
        edges or ``vertex_blocks`` name.
        """

    @property
    def edges(self) -> int | None:
        """Number of tuples if it is known before reading."""

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """Split into units of about ``edges_per_unit`` tuples, or one if it cannot be split."""

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the unit's tuples in order, in blocks of at most ``block_edges``.

        InputError gives path, line, what was expected and what to do.
        """

    def check_totals(self, tuples_read: int) -> None:
        """Raise InputError if the input has more or fewer tuples than it declares.

        Called once after every unit was read, because a unit alone cannot know.
        """

    def vertex_blocks(self) -> Iterator[IntArray]:
        """Yield explicitly listed vertex ids (LDBC ``.v``), or nothing.

        If any are listed, every edge must join listed vertices; the build checks that.
        """

    def describe(self) -> dict[str, Any]:
        """JSON-able description: generator parameters, or name, size and SHA-256 of each file."""

    def identity(self) -> str | None:
        """What distinguishes these edges from others without reading them; None if nothing does.

        A stopped build is continued only if its source has the same identity.
        """


class SourceDefaults:
    """What most sources have in common; see ``EdgeSource``."""

    directed: bool
    weight_dtype: np.dtype[Any] | None
    id_range: tuple[int, int] | None = None
    rereadable: bool = False

    @property
    def weighted(self) -> bool:
        """Whether blocks have weights."""
        return self.weight_dtype is not None

    @property
    def weight_type(self) -> str | None:
        """Name of the weights' type."""
        return None if self.weight_dtype is None else str(self.weight_dtype)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read; empty if the source has no files."""
        return ()

    def identity(self) -> str | None:
        """What distinguishes these edges from others without reading them; None if nothing does.

        A stopped build is continued only if its source has the same identity. For files it consists
        of how they are read, and of the size and modification time of each.
        """
        return identity_of(self, self.paths) if self.paths else None

    def describe_files(self, name: str, **facts: Any) -> dict[str, Any]:
        """Description of a source of files: its format, each file, and further entries."""
        return {
            "format": name,
            "directed": self.directed,
            "weight_type": self.weight_type,
            "files": [file_record(path) for path in self.paths],
            **facts,
        }

    def check_totals(self, tuples_read: int) -> None:
        """Compare the number of tuples with the declared one."""
        edges = getattr(self, "edges", None)
        if edges not in {None, tuples_read}:
            raise InputError(f"{edges:,} edges are expected, {tuples_read:,} were read")

    def vertex_blocks(self) -> Iterator[IntArray]:
        """Yield no vertices."""
        return iter(())


def identity_of(source: Any, paths: Iterable[str]) -> str | None:
    """Identity of a source that reads files, as `SourceDefaults.identity` has it."""
    try:
        found = [(Path(path).absolute(), Path(path).stat()) for path in paths]
    except OSError:
        return None  # whoever reads the file says what is wrong
    files = [f"{path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for path, s in found]
    return "\n".join([repr(source), *files])


def units_of(spans: Iterable[tuple[Any, ...]]) -> list[Unit]:
    """Units of (start, stop) or (start, stop, path), numbered in their order."""
    return [Unit(index, *span) for index, span in enumerate(spans)]


def ranges(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of ``step`` numbers, the last one shorter."""
    step = max(1, step)
    return ((low, min(low + step, stop)) for low in range(start, stop, step))


def most_rows(source: EdgeSource) -> int | None:
    """Vertices with edges that a source has at most, as far as that is known before reading."""
    bounds = [] if source.edges is None else [2 * source.edges]
    if source.id_range is not None:
        bounds.append(source.id_range[1])
    return min(bounds, default=None)
