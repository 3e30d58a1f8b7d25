"""Matrix Market coordinate files as graphs: row -> column, ids 1 .. n.

Format: R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market Exchange Formats", NISTIR
5935, 1996.
"""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.edges.bytestream import Peek, peek, shown
from ooc_graph.edges.lines import LineGrammar, is_count
from ooc_graph.edges.options import ReadOptions
from ooc_graph.edges.textsource import TextFile, TextSource, refuse_different, text_file

_FIELDS = {"pattern": None, "integer": "int64", "real": "float64", "double": "float64"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def open_matrix_market(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Square coordinate matrices; symmetric and hermitian (real) ones are undirected graphs.

    Others than of a graph with real weights are refused: array, complex, vector, rectangular.
    """
    read = [_read_header(peek(path), options) for path in paths]
    refuse_different(read, "header", "field, symmetry and size")
    (_, symmetry), files = read[0][0], tuple(file for _, file in read)
    symmetric = symmetry in {"symmetric", "hermitian"}
    directed = options.is_directed(not symmetric)
    # The file holds one triangle: as a directed graph it has both arcs of every entry.
    sign = 0
    if symmetry == "skew-symmetric":
        sign = -1
    elif symmetric and directed:
        sign = 1
    return TextSource("mtx", files, directed, files[0].grammar.id_range, sign)


def _read_header(view: Peek, options: ReadOptions) -> tuple[tuple[str, str], TextFile]:
    """Field and symmetry of the entries, and the file."""
    lines = view.lines()
    _, _, first = next(lines, (0, 0, b""))
    banner = _banner(view, first)
    for number, after, line in lines:
        if line and not line.startswith(b"%"):
            count, entries = _size(view, number, line)
            grammar = _grammar(view, banner[0], count, options)
            return banner, text_file(view, grammar, after, entries)
    raise view.fault("no size line", "expected 'rows columns entries' after the comments")


def _banner(view: Peek, line: bytes) -> tuple[str, str]:
    words = line.decode("utf-8", "replace").split()
    if not words or words[0] != "%%MatrixMarket":
        raise view.fault("no Matrix Market banner", "expected '%%MatrixMarket matrix …'", 1)
    if len(words) != 5:
        advice = "expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY'"
        raise view.fault(f"the banner has {len(words)} words", advice, 1)
    kind, layout, field, symmetry = (word.lower() for word in words[1:])
    _require(view, "object", kind, ("matrix",))
    _require(view, "layout", layout, ("coordinate",))
    _require(view, "field", field, tuple(_FIELDS))
    _require(view, "symmetry", symmetry, _SYMMETRIES)
    if field == "pattern" and symmetry in {"skew-symmetric", "hermitian"}:
        raise view.fault(f"a pattern matrix cannot be {symmetry}", line=1)
    return field, symmetry


def _require(view: Peek, what: str, word: str, supported: tuple[str, ...]) -> None:
    if word not in supported:
        advice = "supported: " + ", ".join(supported)
        raise view.fault(f"Matrix Market {what} {word!r} is not supported", advice, 1)


def _size(view: Peek, number: int, line: bytes) -> tuple[int, int]:
    """Number of vertices and of entries."""
    words = line.split()
    valid = len(words) == 3 and all(map(is_count, words))
    if not valid:
        advice = "expected three numbers 'rows columns entries' from 0 to 2^63-1"
        raise view.fault(f"the size line is {shown(line)}", advice, number)
    rows, columns, entries = (int(word) for word in words)
    if rows != columns:
        what = f"the matrix is rectangular, {rows} x {columns}"
        raise view.fault(what, "the matrix of a graph is square", number)
    return rows, entries


def _grammar(view: Peek, field: str, count: int, options: ReadOptions) -> LineGrammar:
    declared = _FIELDS[field]
    if declared is None and options.needs_weight:
        raise view.fault("a pattern matrix has no weights", "leave --weight out", 1)
    weighted = declared is not None and not options.no_weight
    return LineGrammar(
        fields=2 if declared is None else 3,
        weight=2 if weighted else -1,
        weight_type=(options.column_type or declared) if weighted else None,
        comments="%",
        id_range=(1, count),
    )
