"""Text with one edge per line: what a line looks like, and how blocks of it become columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ooc_graph.edges.bytestream import ByteReader, line_at
from ooc_graph.edges.filled import FilledColumns, weight_mode
from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.kernels.cpu.build import edge_text as tokenize
from ooc_graph.types import EdgeBlock, IntArray

BUFFER_BYTES = 4 << 20
INT64_MAX = np.iinfo(np.int64).max
MOST_DIGITS = 40
"""Digits of a count, leading zeros included; Python converts no more than 4,300."""


def is_count(word: bytes) -> bool:
    """Whether a word that should count something is a decimal number from 0 to 2**63 - 1."""
    return word.isdigit() and len(word) <= MOST_DIGITS and int(word) <= INT64_MAX


@dataclass(frozen=True)
class LineGrammar:
    """What a line of edges looks like.

    ``fields`` is how many it has, a tag not counted; columns are positions from 0, weight -1: none.
    ``weight_type`` is ``int64``, ``float32``, ``float64``, or None: each block is int64 if all its
    tokens are integers, else float64. The delimiter is empty for runs of blanks; ``comments`` are
    at most two characters that begin a comment line, ``tag`` one that begins each line of edges
    (DIMACS ``a``). ``id_range`` is (first, count) of the ids that are admitted; None admits all.
    """

    fields: int
    source: int = 0
    target: int = 1
    weight: int = -1
    weight_type: str | None = None
    delimiter: str = ""
    comments: str = "#%"
    tag: str = ""
    id_range: tuple[int, int] | None = None

    def parameters(self) -> IntArray:
        """Parameter vector of ``tokenize_lines``."""
        values = np.zeros(tokenize.PARAMETERS, dtype=np.int64)
        comments = [ord(character) for character in self.comments]
        values[tokenize.P_DELIMITER] = ord(self.delimiter) if self.delimiter else 0
        values[tokenize.P_COMMENT] = comments[0] if comments else 0
        values[tokenize.P_COMMENT_TOO] = comments[-1] if comments else 0
        values[tokenize.P_TAG] = ord(self.tag) if self.tag else 0
        values[tokenize.P_FIELDS] = self.fields
        values[tokenize.P_SOURCE], values[tokenize.P_TARGET] = self.source, self.target
        values[tokenize.P_WEIGHT] = self.weight
        values[tokenize.P_WEIGHT_MODE] = weight_mode(self.weight >= 0, self.weight_type)
        first, last = id_bounds(self.id_range)
        values[tokenize.P_ID_FIRST], values[tokenize.P_ID_LAST] = first, last
        return values


def id_bounds(id_range: tuple[int, int] | None) -> tuple[int, int]:
    """Smallest and largest id that a range admits."""
    return (0, int(INT64_MAX)) if id_range is None else (id_range[0], sum(id_range) - 1)


@dataclass(frozen=True)
class Chunk:
    """Whole lines in a buffer: bytes ``start`` to ``stop``, with byte 0 at ``offset`` in the text.

    The buffer is used again for the next chunk.
    """

    buffer: bytearray
    start: int
    stop: int
    offset: int


def whole_lines(
    path: str, start: int, stop: int, *, at_line: bool, buffer_bytes: int = BUFFER_BYTES
) -> Iterator[Chunk]:
    """Yield the lines that begin at text offsets ``start`` <= offset < ``stop``.

    A ``stop`` of -1 is the end of the file. ``at_line``: a line is known to begin at ``start``.
    """
    offset = start if at_line else start - 1
    skip, kept = not at_line, 0
    buffer = bytearray(buffer_bytes)
    with ByteReader(path, offset) as reader:
        while True:
            filled = kept + reader.fill(memoryview(buffer)[kept:])
            at_end = filled < buffer_bytes
            begin = buffer.find(b"\n", 0, filled) + 1 if skip else 0
            skip = skip and begin == 0
            last = _end_of_lines(buffer, begin, filled, stop - offset if stop >= 0 else None)
            if last is None:
                end = filled if at_end else buffer.rfind(b"\n", 0, filled) + 1
            else:
                end, at_end = last, True
            if end > begin and not skip:
                yield Chunk(buffer, begin, end, offset)
            if at_end:
                return
            end = filled if skip else end
            if end == 0:
                raise _long_line(path, offset, buffer_bytes)
            buffer[: filled - end] = buffer[end:filled]
            offset, kept = offset + end, filled - end


def _end_of_lines(buffer: bytearray, begin: int, filled: int, stop: int | None) -> int | None:
    """Where the last line that begins before ``stop`` ends, if it ends in the buffer."""
    if stop is None or filled < stop:
        return None
    if begin >= stop:
        return begin
    newline = buffer.find(b"\n", max(begin, stop - 1), filled)
    return newline + 1 if newline >= 0 else None


def _long_line(path: str, offset: int, buffer_bytes: int) -> InputError:
    return InputError(
        f"a line is longer than {buffer_bytes:,} bytes",
        path=path,
        line=line_at(path, offset),
        advice="is this an edge file? name its format with --format",
    )


class ColumnParser:
    """Turns chunks of one file into blocks of edges; owns the columns that the kernel fills."""

    def __init__(self, path: str, grammar: LineGrammar, block_edges: int) -> None:
        self.path, self.grammar = path, grammar
        self._parameters = grammar.parameters()
        self._columns = FilledColumns(
            max(1, min(block_edges, BUFFER_BYTES // 4)),
            weighted=grammar.weight >= 0,
            weight_type=grammar.weight_type,
        )

    def parse(self, chunk: Chunk) -> Iterator[EdgeBlock]:
        """Yield the edges of a chunk; InputError at the first line that breaks the grammar."""
        text = np.frombuffer(chunk.buffer, dtype=np.uint8)
        columns, at = self._columns, chunk.start
        while at < chunk.stop:
            rows, at, status, slow_rows, all_integer = tokenize.tokenize_lines(
                text, at, chunk.stop, self._parameters, columns.arrays
            )
            overflow = columns.round_slow(chunk.buffer, slow_rows)
            if overflow is not None:
                raise self._fault(chunk, overflow, decimals.NOT_FINITE)
            if status != decimals.OK:
                raise self._fault(chunk, at, status)
            if rows:
                yield columns.block(rows, all_integer, self.path)

    def _fault(self, chunk: Chunk, at: int, status: int) -> InputError:
        start = chunk.buffer.rfind(b"\n", 0, at) + 1
        end = chunk.buffer.find(b"\n", at, chunk.stop)
        line = bytes(chunk.buffer[start : chunk.stop if end < 0 else end]).strip()
        return line_fault(
            status, self.grammar, line, path=self.path, number=line_at(self.path, chunk.offset + at)
        )


def line_fault(
    status: int, grammar: LineGrammar, line: bytes, *, path: str, number: int | None
) -> InputError:
    """Error for a status of the kernel; ``line`` is the text at fault."""
    shown = line[:60].decode("utf-8", "replace") + ("…" if len(line) > 60 else "")
    first, last = id_bounds(grammar.id_range)
    fields = f"{grammar.fields} fields" + (f" after '{grammar.tag}'" if grammar.tag else "")
    ids = "ids are decimal integers from 0 to 2^63-1"
    problem, advice = {
        decimals.FEW_FIELDS: (f"too few fields, expected {fields}", "is the line cut short?"),
        decimals.MANY_FIELDS: (f"too many fields, expected {fields}", "all lines need the same"),
        decimals.BAD_ID: ("a vertex id is not a number", ids),
        decimals.NEGATIVE_ID: ("a vertex id is negative", ids),
        decimals.BIG_ID: ("a vertex id is above 2^63-1", ids),
        decimals.ID_OUT_OF_RANGE: (
            "a vertex id is outside the range that the file declares",
            f"ids from {first} to {last}",
        ),
        decimals.BAD_WEIGHT: (
            "the weight is not a number",
            "weights are decimal numbers; leave them out with --weight none",
        ),
        decimals.NOT_FINITE: (
            "the weight is not finite",
            "remove the edge, or leave the weights out with --weight none",
        ),
        decimals.BIG_WEIGHT: (
            "the integer weight does not fit 64 bits",
            "use weight type float64 to round it",
        ),
        decimals.NOT_INTEGER: (
            "the weight is not an integer",
            "the file declares integers; or use weight type float64",
        ),
        decimals.LONE_CR: ("a carriage return without a line feed", "use LF or CR LF"),
        decimals.OPEN_QUOTE: (
            "a quoted field does not end on its line",
            "line breaks inside quotes are not supported",
        ),
        decimals.BAD_TAG: (f"expected a line '{grammar.tag} …'", "comments begin with 'c'"),
        decimals.CONTROL_BYTE: ("a control character between fields", "is this a text file?"),
        decimals.MANY_LINES: ("more lines than the file declares", "check its first line"),
    }[status]
    return InputError(f"{problem}: {shown!r}", path=path, line=number, advice=advice)
