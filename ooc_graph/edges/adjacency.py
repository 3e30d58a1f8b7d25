"""Text with one vertex per line: METIS ``.graph`` and adjacency lists.

METIS (G. Karypis, "METIS 5.1 manual", 2013): ``n m [fmt [ncon]]``, then line k lists the
neighbours of vertex k, each edge from both ends. Adjacency lists: ``v n1 n2 …`` or
``v n1,w1 n2,w2 …``, every entry an arc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ooc_graph.edges.bytestream import Peek, peek, peek_only, shown
from ooc_graph.edges.delimited import is_comment
from ooc_graph.edges.interface import SourceDefaults, Unit
from ooc_graph.edges.lines import BUFFER_BYTES, is_count
from ooc_graph.edges.options import ReadOptions
from ooc_graph.edges.rows import RowFile, RowGrammar, RowParser
from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build import row_text as tokenize_rows
from ooc_graph.types import EdgeBlock, IntArray, distinct


@dataclass(frozen=True)
class AdjacencySource(SourceDefaults):
    """Edges from adjacency text, METIS or lists; see ``EdgeSource``. Each file is one unit.

    A METIS header has ``declared`` so many edges.
    """

    format: str
    files: tuple[RowFile, ...]
    grammar: RowGrammar
    directed: bool
    declared: int | None = None
    buffer_bytes: int = BUFFER_BYTES
    edges: int | None = field(default=None, init=False)

    @property
    def weighted(self) -> bool:
        """Whether blocks carry weights."""
        return self.grammar.weighted

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:  # type: ignore[override]
        """Type of the weights if the caller chose it."""
        kind = self.grammar.weight_type
        return np.dtype(kind) if self.weighted and kind is not None else None

    @property
    def id_range(self) -> tuple[int, int] | None:  # type: ignore[override]
        """(1, n) of METIS; adjacency lists declare nothing."""
        return self.grammar.id_range

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """One unit per file: the number of a METIS vertex is the number of its line."""
        del edges_per_unit
        return [Unit(i, file.data_start, -1, file.path) for i, file in enumerate(self.files)]

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the entries of all rows.

        At the end the counts of the header are checked, and that an undirected METIS graph has each
        edge from both ends.
        """
        file = next(file for file in self.files if file.path == unit.path)
        parser = RowParser(file, self.grammar, block_edges, self.buffer_bytes)
        rows, balance = 0, 0
        # Each entry (u, v, w) has to come with (v, u, w).
        is_mirrored = self.declared is not None and not self.directed
        for block, _ in parser.blocks():
            rows += len(block)
            if len(block):
                if is_mirrored:
                    balance += _mirror_sum(block)
                yield block
        if self.declared is not None:
            self._check_counts(parser, rows)
        if balance % (1 << 64):
            raise InputError(
                "an edge is not listed from both ends with one weight",
                path=parser.path,
                advice="METIS graphs are symmetric; use --directed for rows of out-arcs",
            )

    def _check_counts(self, parser: RowParser, entries: int) -> None:
        _, count = self.grammar.id_range or (1, 0)
        # An empty last line without its line feed cannot be told from a missing one.
        if parser.rows < count - 1:
            raise InputError(
                f"{count:,} vertices are declared, there are lines for {parser.rows:,}",
                path=parser.path,
                line=parser.line,
                advice="a vertex without neighbours needs an empty line",
            )
        # Self-loops are listed once by some writers and twice by others.
        listed = {entries, entries + parser.loops}
        if self.directed and self.declared == entries:
            return
        if 2 * (self.declared or 0) not in listed:
            raise InputError(
                f"{self.declared:,} edges are declared, the rows list {entries:,} neighbours",
                path=parser.path,
                line=parser.line,
                advice="METIS lists each edge from both ends; use --directed for rows of out-arcs",
            )

    def vertex_blocks(self) -> Iterator[IntArray]:
        """Yield the ids in an adjacency list, neighbours too; ids come back in several blocks."""
        if self.format != "adjacency":
            return
        for file in self.files:
            parser = RowParser(file, self.grammar, 1 << 18, self.buffer_bytes)
            for block, heads in parser.blocks():
                yield distinct(np.concatenate([heads, block.target]))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(file.path for file in self.files)

    def describe(self) -> dict[str, Any]:
        """Format and name, size and SHA-256 of each file."""
        return self.describe_files(self.format, weighted=self.weighted)


def _mirror_sum(block: EdgeBlock) -> int:
    """``mirror_sum`` of a block; the type of its weights, and the sign of 0, do not matter."""
    weight = np.zeros(0) if block.weight is None else block.weight.astype(np.float64) + 0.0
    return int(tokenize_rows.mirror_sum(block.source, block.target, weight))


def open_metis(paths: Sequence[str], options: ReadOptions) -> AdjacencySource:
    """Open one METIS or Chaco file."""
    view = peek_only(paths, "metis")
    for number, after, line in view.lines():
        if is_comment(line):
            continue
        count, declared, skip, paired = _metis_header(view, number, line)
        if not paired and options.needs_weight:
            raise view.fault("the file has no edge weights", line=number)
        weighted = paired and not options.no_weight
        grammar = RowGrammar(
            numbered=True,
            skip=skip,
            paired=paired,
            weighted=weighted,
            weight_type=options.column_type if weighted else None,
            id_range=(1, count),
        )
        file = RowFile(view.path, after, number + 1)
        return AdjacencySource("metis", (file,), grammar, bool(options.directed), declared)
    raise view.fault("no header", "expected 'VERTICES EDGES [FMT [NCON]]'")


def _metis_header(view: Peek, number: int, line: bytes) -> tuple[int, int, int, bool]:
    """Vertices, edges, numbers to skip in a row, whether neighbours have weights."""
    words = line.split()
    valid = 2 <= len(words) <= 4 and all(map(is_count, words))
    kinds = words[2].decode().zfill(3) if valid and len(words) > 2 else "000"
    if not valid or len(kinds) != 3 or set(kinds) - {"0", "1"}:
        advice = "expected 'VERTICES EDGES [FMT [NCON]]', FMT three digits 0 or 1"
        raise view.fault(f"the header is {shown(line)}", advice, number)
    weights = int(words[3]) if len(words) > 3 else 1
    skip = (kinds[0] == "1") + (weights if kinds[1] == "1" else 0)
    if not is_count(b"%d" % skip):
        raise view.fault(f"the header is {shown(line)}", "NCON is below 2^63 - 1", number)
    return int(words[0]), int(words[1]), skip, kinds[2] == "1"


def open_adjacency(paths: Sequence[str], options: ReadOptions) -> AdjacencySource:
    """Open adjacency lists; the first neighbour tells whether there are weights."""
    views = [peek(path) for path in paths]
    have_weights = [
        has_weight for view in views if (has_weight := _first_has_weight(view)) is not None
    ]
    if not have_weights:
        raise InputError("no edges in the file", path=paths[0], advice="expected 'v n1 n2 …'")
    weighted = have_weights[0] and not options.no_weight
    if not have_weights[0] and options.needs_weight:
        raise InputError("the neighbours have no weights", path=paths[0], advice="expected 'v n,w'")
    grammar = RowGrammar(
        paired=have_weights[0],
        weighted=weighted,
        weight_type=options.column_type if weighted else None,
    )
    files = tuple(RowFile(view.path, view.skipped, 1) for view in views)
    return AdjacencySource("adjacency", files, grammar, options.is_directed())


def _first_has_weight(view: Peek) -> bool | None:
    """Whether the first neighbour has a weight; None if the file lists none."""
    for _, _, line in view.lines():
        words = line.split()
        if not is_comment(line) and len(words) > 1:
            return b"," in words[1]
    return None
