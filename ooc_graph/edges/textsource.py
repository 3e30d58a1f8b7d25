"""Text files with one edge per line as a source of edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.bytestream import Peek, file_record, line_at, peek
from ooc_graph.edges.interface import SourceDefaults, Unit, identity_of, ranges, units_of
from ooc_graph.edges.lines import BUFFER_BYTES, ColumnParser, LineGrammar, whole_lines
from ooc_graph.errors import InputError
from ooc_graph.types import EdgeBlock, IntArray


@dataclass(frozen=True)
class TextFile:
    """One file of a source, and what its lines look like.

    The first line after the header begins at ``data_start``; ``text_bytes`` is -1 if the text is
    compressed, ``line_bytes`` a line's mean length, and ``declared`` the lines that a header says.
    """

    path: str
    grammar: LineGrammar
    data_start: int
    text_bytes: int
    line_bytes: float
    declared: int | None = None


def refuse_different(read: Sequence[tuple[Any, TextFile]], where: str, alike: str) -> None:
    """Refuse files of one graph whose headers, or ranges of ids, are not those of the first."""
    for header, file in read:
        if (header, file.grammar.id_range) != (read[0][0], read[0][1].grammar.id_range):
            raise InputError(
                f"differs from the first file in its {where}",
                path=file.path,
                advice=f"files of one graph need the same {alike}",
            )


def text_file(
    view: Peek, grammar: LineGrammar, data_start: int, declared: int | None = None
) -> TextFile:
    """Describe a file whose beginning has been read."""
    sample = view.text[data_start - view.skipped :]
    lines = max(1, sample.count(b"\n"))
    size = -1 if view.compressed else Path(view.path).stat().st_size
    mean = max(len(sample) / lines, 2.0)
    return TextFile(view.path, grammar, data_start, size, mean, declared)


@dataclass(frozen=True)
class TextSource(SourceDefaults):
    """Edges from text files, one edge per line; see ``EdgeSource``.

    Plain files split into units by byte ranges at line ends, compressed files are one unit each.
    ``mirrored`` is a sign s if each line (u, v, w) stands for (u, v, w) and (v, u, s * w): -1 for
    skew-symmetric matrices, 1 for symmetric ones read as directed graphs; 0 for one arc. Lines of
    ``vertex_file`` (LDBC ``.v``) begin with a vertex id, ``declared_vertices`` of them if that is
    known. ``buffer_bytes`` of text are in memory at a time; no line may be longer.
    """

    format: str
    files: tuple[TextFile, ...]
    directed: bool
    id_range: tuple[int, int] | None = None
    mirrored: int = 0
    vertex_file: str | None = None
    declared_vertices: int | None = None
    buffer_bytes: int = BUFFER_BYTES

    @property
    def weighted(self) -> bool:
        """Whether blocks carry weights."""
        return self.files[0].grammar.weight >= 0

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:  # type: ignore[override]
        """Type of the weights if it is known before reading."""
        kind = self.files[0].grammar.weight_type
        return np.dtype(kind) if self.weighted and kind is not None else None

    @property
    def edges(self) -> int | None:
        """Number of tuples that the headers declare."""
        declared = [file.declared for file in self.files if file.declared is not None]
        if len(declared) < len(self.files):
            return None
        return sum(declared) * (2 if self.mirrored else 1)

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """Byte ranges of plain files, whole compressed files."""
        return units_of(
            (start, stop, file.path)
            for file in self.files
            for start, stop in _byte_ranges(file, edges_per_unit)
        )

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the edges of the lines that begin in the unit."""
        file = next(file for file in self.files if file.path == unit.path)
        parser = ColumnParser(
            file.path, file.grammar, max(1, block_edges // 2 if self.mirrored else block_edges)
        )
        at_line = unit.start == file.data_start
        lines = 0
        for chunk in whole_lines(
            file.path, unit.start, unit.stop, at_line=at_line, buffer_bytes=self.buffer_bytes
        ):
            for block in parser.parse(chunk):
                lines += len(block)
                yield from self._mirrored(block, file.path, block_edges)
        if at_line and unit.stop == file.text_bytes:
            _check_declared(file, lines)

    def _mirrored(self, block: EdgeBlock, path: str, block_edges: int) -> Iterator[EdgeBlock]:
        if self.mirrored == 0:
            yield block
            return
        if self.mirrored < 0:
            _refuse_skew(block, path)
        yield from _both_directions(block, self.mirrored, block_edges)

    def check_totals(self, tuples_read: int) -> None:
        """Compare the number of tuples in all units with what the headers declare."""
        if self.edges is not None and self.edges != tuples_read:
            step = 2 if self.mirrored else 1
            raise _count_error(self.files[0].path, self.edges // step, tuples_read // step, None)

    def vertex_blocks(self) -> Iterator[IntArray]:
        """Yield the ids of the vertex file."""
        if self.vertex_file is None:
            return
        found = 0
        for block in read_ids(self.vertex_file, self.buffer_bytes):
            found += len(block)
            yield block
        if self.declared_vertices not in {None, found}:
            raise InputError(
                f"{self.declared_vertices:,} vertices are declared, the file has {found:,}",
                path=self.vertex_file,
                advice="fetch the file again or correct the properties",
            )

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that have edges."""
        return tuple(file.path for file in self.files)

    def identity(self) -> str | None:
        """As that of all files; of the one that lists vertices, too."""
        listed = () if self.vertex_file is None else (self.vertex_file,)
        return identity_of(self, (*self.paths, *listed))

    def describe(self) -> dict[str, Any]:
        """Format, columns, and name, size and SHA-256 of each file."""
        grammar = self.files[0].grammar
        record = self.describe_files(
            self.format,
            columns=[grammar.source, grammar.target],
            weight_column=grammar.weight if self.weighted else None,
            delimiter=grammar.delimiter,
        )
        if self.vertex_file is not None:
            record["vertex_file"] = file_record(self.vertex_file)
        return record


def _byte_ranges(file: TextFile, edges_per_unit: int) -> list[tuple[int, int]]:
    if file.text_bytes < 0:
        return [(file.data_start, -1)]
    step = int(edges_per_unit * file.line_bytes)
    whole = (file.data_start, file.text_bytes)
    return list(ranges(*whole, step)) or [whole]


def _check_declared(file: TextFile, lines: int) -> None:
    if file.declared is None or lines == file.declared:
        return
    end = line_at(file.path, (1 << 62) if file.text_bytes < 0 else file.text_bytes)
    raise _count_error(file.path, file.declared, lines, end)


def _count_error(path: str, declared: int, found: int, line: int | None) -> InputError:
    return InputError(
        f"the header declares {declared:,} edges, the file has {found:,}",
        path=path,
        line=line,
        advice="the file is cut short or its header is wrong",
    )


def _refuse_skew(block: EdgeBlock, path: str) -> None:
    """Refuse what has no negative: the diagonal, and the smallest integer."""
    loops = block.source == block.target
    if loops.any():
        vertex = int(block.source[np.argmax(loops)])
        raise InputError(
            f"a skew-symmetric matrix has the diagonal entry {vertex} {vertex}", path=path
        )
    weight = block.weight
    if weight is not None and weight.dtype == np.int64 and (weight == np.iinfo(np.int64).min).any():
        raise InputError("the integer weight -2^63 has no negative in 64 bits", path=path)


def _both_directions(block: EdgeBlock, sign: int, block_edges: int) -> Iterator[EdgeBlock]:
    """(u, v, w) and (v, u, sign * w) of each entry."""
    weight = block.weight
    if weight is not None:
        weight = np.concatenate([weight, -weight if sign < 0 else weight])
    source = np.concatenate([block.source, block.target])
    target = np.concatenate([block.target, block.source])
    for start in range(0, len(source), block_edges):
        part = slice(start, start + block_edges)
        yield EdgeBlock(source[part], target[part], None if weight is None else weight[part])


def read_ids(path: str, buffer_bytes: int = BUFFER_BYTES) -> Iterator[IntArray]:
    """Yield the first field of each line of a file as ids, in blocks."""
    first = next((line for _, _, line in peek(path).lines() if line), b"")
    skipped = peek(path).skipped
    grammar = LineGrammar(fields=max(1, len(first.split())), target=0)
    parser = ColumnParser(path, grammar, BUFFER_BYTES // 4)
    for chunk in whole_lines(path, skipped, -1, at_line=True, buffer_bytes=buffer_bytes):
        for block in parser.parse(chunk):
            yield block.source
