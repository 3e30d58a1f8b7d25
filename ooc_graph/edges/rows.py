"""What a row of adjacency text looks like, and how a file of rows becomes columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ooc_graph.edges.bytestream import ByteReader
from ooc_graph.edges.filled import FilledColumns, weight_mode
from ooc_graph.edges.lines import BUFFER_BYTES, LineGrammar, id_bounds, line_fault
from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.kernels.cpu.build import row_text as tokenize_rows
from ooc_graph.types import EdgeBlock, IntArray

_BLANKS = b" ", b"\t", b"\n", b"\r"


@dataclass(frozen=True)
class RowGrammar:
    """What a row looks like.

    If it is ``numbered``, the line's number is the vertex (METIS), else the first number is.
    ``skip`` numbers, METIS vertex sizes and weights, are before the neighbours, which come
    ``paired`` with weights; these are used if rows are ``weighted``.
    """

    numbered: bool = False
    skip: int = 0
    paired: bool = False
    weighted: bool = False
    weight_type: str | None = None
    id_range: tuple[int, int] | None = None

    def line_grammar(self) -> LineGrammar:
        """The same rules for ids and weights, as error messages need them."""
        weight = 2 if self.weighted else -1
        return LineGrammar(
            2 + self.paired, weight=weight, weight_type=self.weight_type, id_range=self.id_range
        )

    def parameters(self) -> IntArray:
        """Parameter vector of ``build.row_text``."""
        first, last = id_bounds(self.id_range)
        mode = weight_mode(self.weighted, self.weight_type)
        values = [int(self.numbered), self.skip, int(self.paired), mode, first, last]
        return np.array(values, dtype=np.int64)


@dataclass(frozen=True)
class RowFile:
    """One file: where its rows begin (text offset and line number)."""

    path: str
    data_start: int
    first_line: int


class RowParser:
    """Reads one file of rows from beginning to end."""

    def __init__(
        self, file: RowFile, grammar: RowGrammar, block_edges: int, buffer_bytes: int
    ) -> None:
        self.path, self.grammar, self._start = file.path, grammar, file.data_start
        self._buffer = bytearray(buffer_bytes)
        self._parameters = grammar.parameters()
        self._state = np.zeros(tokenize_rows.STATES, dtype=np.int64)
        self._state[tokenize_rows.S_VERTEX] = id_bounds(grammar.id_range)[0]
        self._state[tokenize_rows.S_LINE] = file.first_line
        self._state[tokenize_rows.S_NEIGHBOR] = -1
        rows = max(1, min(block_edges, BUFFER_BYTES // 2))
        self._columns = FilledColumns(
            rows, weighted=grammar.weighted, weight_type=grammar.weight_type
        )
        self._heads = np.empty(rows, dtype=np.int64)

    @property
    def line(self) -> int:
        """1-based number of the line reached."""
        return int(self._state[tokenize_rows.S_LINE])

    @property
    def loops(self) -> int:
        """Number of entries that name their own row."""
        return int(self._state[tokenize_rows.S_LOOPS])

    @property
    def rows(self) -> int:
        """Number of vertex lines finished (METIS)."""
        return int(self._state[tokenize_rows.S_VERTEX]) - id_bounds(self.grammar.id_range)[0]

    def blocks(self) -> Iterator[tuple[EdgeBlock, IntArray]]:
        """Yield edges and, if rows name their vertex, the vertices whose rows begin."""
        for at, stop in self._pieces():
            yield from self._parse(at, stop)

    def _parse(self, at: int, stop: int) -> Iterator[tuple[EdgeBlock, IntArray]]:
        text, columns = np.frombuffer(self._buffer, dtype=np.uint8), self._columns
        while at < stop:
            count, heads, at, status, slow_rows, whole = tokenize_rows.tokenize_rows(
                text, at, stop, self._parameters, self._state, columns.arrays, self._heads
            )
            overflow = columns.round_slow(self._buffer, slow_rows)
            if overflow is not None:
                raise self._fault(decimals.NOT_FINITE, overflow, stop)
            if status != decimals.OK:
                raise self._fault(status, at, stop)
            if count or heads:
                yield columns.block(count, whole, self.path), self._heads[:heads].copy()

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Fill the buffer with text that ends between tokens; the last line gets its end."""
        size, kept, last = len(self._buffer), 0, 10
        with ByteReader(self.path, self._start) as reader:
            while True:
                filled = kept + reader.fill(memoryview(self._buffer)[kept : size - 1])
                at_end = filled < size - 1
                last = self._buffer[filled - 1] if filled else last
                if at_end and last != 10:
                    self._buffer[filled] = 10
                    filled += 1
                blanks = (self._buffer.rfind(blank, 0, filled) for blank in _BLANKS)
                cut = filled if at_end else max(blanks) + 1
                if cut == 0 and not at_end:
                    raise InputError(
                        f"a number of more than {size:,} digits", path=self.path, line=self.line
                    )
                yield 0, cut
                if at_end:
                    return
                self._buffer[: filled - cut] = self._buffer[cut:filled]
                kept = filled - cut

    def _fault(self, status: int, at: int, stop: int) -> InputError:
        if status == decimals.FEW_FIELDS:
            return InputError(
                f"the line has fewer than the {self.grammar.skip} numbers before the neighbours",
                path=self.path,
                line=self.line,
                advice="the header's FMT says vertex sizes or weights",
            )
        token = bytes(self._buffer[at : min(stop, at + 80)]).split(maxsplit=1)[:1]
        return line_fault(
            status,
            self.grammar.line_grammar(),
            token[0] if token else b"end of line",
            path=self.path,
            number=self.line,
        )
