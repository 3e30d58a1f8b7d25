"""Edge lists that begin with their counts.

``algs4`` (Sedgewick and Wayne): a line V, a line E (may be missing), then ``u v [w]``, ids
0 .. V-1, directed. ``counted`` (courses and contests): a line ``n m``, then ``u v [w]``, ids
1 .. n, directed. DIMACS and PACE ``.gr``: a line ``p KIND n m``, then one line per arc or edge, ids
1 .. n. ``p sp`` (9th DIMACS challenge): directed, ``a u v w``. ``p edge`` and ``p col`` (2nd
challenge): undirected, ``e u v``. ``p tw`` and other PACE problems: undirected, bare ``u v``.
Matrix Market: a banner, a line ``rows columns entries``, then entries as arcs row -> column, ids
1 .. n (R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market Exchange Formats", NISTIR 5935,
1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ooc_graph.edges.bytestream import Peek, peek, peek_only, shown
from ooc_graph.edges.delimited import is_comment, is_number, not_a_weight, split_fields
from ooc_graph.edges.lines import LineGrammar, is_count
from ooc_graph.edges.options import ReadOptions
from ooc_graph.edges.textsource import TextFile, TextSource, refuse_different, text_file


def open_algs4(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Open one file that begins with V and perhaps E on lines of their own."""
    view = peek_only(paths, "algs4")
    lines = [entry for entry in view.lines() if not is_comment(entry[2])]
    vertices = _counts(view, lines[0] if lines else None, 1, "V, the number of vertices")[0]
    declared, header = None, 1
    if len(lines) > 1 and len(lines[1][2].split()) == 1:
        declared = _counts(view, lines[1], 1, "E, the number of edges")[0]
        header = 2
    return _source("algs4", view, options, lines, header, (0, vertices), declared)


def open_counted(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Open one file that begins with a line 'n m'."""
    view = peek_only(paths, "counted")
    lines = [entry for entry in view.lines() if not is_comment(entry[2])]
    vertices, declared = _counts(view, lines[0] if lines else None, 2, "'vertices edges'")
    return _source("counted", view, options, lines, 1, (1, vertices), declared)


def _counts(
    view: Peek, entry: tuple[int, int, bytes] | None, words: int, expected: str
) -> list[int]:
    number, _, line = entry or (1, 0, b"")
    found = line.split()
    if len(found) != words or not all(map(is_count, found)):
        raise view.fault(f"the first lines hold {shown(line)}", "expected " + expected, number)
    return [int(word) for word in found]


def _source(
    name: str,
    view: Peek,
    options: ReadOptions,
    lines: list[tuple[int, int, bytes]],
    header: int,
    id_range: tuple[int, int],
    declared: int | None,
) -> TextSource:
    number, _, line = lines[header] if len(lines) > header else (0, 0, b"0 0")
    fields = line.split()
    weighted = len(fields) == 3 and is_number(fields[2].decode("utf-8", "replace"))
    if len(fields) == 3 and not weighted and not options.no_weight:
        raise not_a_weight(view, shown(fields[2]), number)
    if not weighted and options.needs_weight:
        raise view.fault("the lines have no weights", "leave --weight out")
    weighted = weighted and not options.no_weight
    grammar = LineGrammar(
        fields=max(2, len(fields)),
        weight=2 if weighted else -1,
        weight_type=options.column_type if weighted else None,
        id_range=id_range,
    )
    file = text_file(view, grammar, lines[header - 1][1], declared)
    return TextSource(name, (file,), options.is_directed(), id_range)


class Problem(NamedTuple):
    """How the lines of a problem kind look."""

    directed: bool
    tag: str
    weighted: bool


_PACE = Problem(directed=False, tag="", weighted=False)
_LISTED = Problem(directed=False, tag="e", weighted=False)
PROBLEMS = {
    "sp": Problem(directed=True, tag="a", weighted=True),
    "edge": _LISTED,
    "col": _LISTED,
    **dict.fromkeys(("tw", "td", "vc", "ds", "fvs", "st", "cep"), _PACE),
}


def open_dimacs(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Open ``.gr`` files; their problem line is of a kind that is listed above."""
    read = [_read_header(peek(path), options) for path in paths]
    files = tuple(file for _, file in read)
    refuse_different(read, "problem line", "kind and number of vertices")
    directed = options.is_directed(read[0][0].directed)
    return TextSource("gr", files, directed, files[0].grammar.id_range)


def _read_header(view: Peek, options: ReadOptions) -> tuple[Problem, TextFile]:
    for number, after, line in view.lines():
        words = line.split()
        if not words or words[0][:1] == b"c":
            continue
        problem, count, lines = _problem(view, number, line)
        if not problem.weighted and options.needs_weight:
            raise view.fault("this kind of .gr file has no weights", "leave --weight out")
        grammar = _grammar(options, problem.weighted, count, comments="c", tag=problem.tag)
        return problem, text_file(view, grammar, after, lines)
    raise view.fault("no problem line", "expected 'p sp VERTICES ARCS'")


def _problem(view: Peek, number: int, line: bytes) -> tuple[Problem, int, int]:
    words = split_fields(line, "")
    numbers = words[2:]
    valid = all(is_count(word.encode()) for word in numbers)
    if words[0] != "p" or len(numbers) != 2 or words[1] not in PROBLEMS or not valid:
        advice = "expected 'p KIND VERTICES LINES' with KIND one of " + ", ".join(PROBLEMS)
        raise view.fault(f"the problem line is {shown(line)}", advice, number)
    return PROBLEMS[words[1]], int(numbers[0]), int(numbers[1])


_FIELDS = {"pattern": None, "integer": "int64", "real": "float64", "double": "float64"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def open_matrix_market(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Square coordinate matrices; symmetric and hermitian (real) ones are undirected graphs.

    Others than of a graph with real weights are refused: array, complex, vector, rectangular.
    """
    read = [_read_matrix(peek(path), options) for path in paths]
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


def _read_matrix(view: Peek, options: ReadOptions) -> tuple[tuple[str, str], TextFile]:
    """Field and symmetry of the entries, and the file."""
    lines = view.lines()
    _, _, first = next(lines, (0, 0, b""))
    banner = _banner(view, first)
    for number, after, line in lines:
        if line and not line.startswith(b"%"):
            count, entries = _size(view, number, line)
            declared = _FIELDS[banner[0]]
            if declared is None and options.needs_weight:
                raise view.fault("a pattern matrix has no weights", "leave --weight out", 1)
            has_weights = declared is not None
            grammar = _grammar(options, has_weights, count, comments="%", weight_type=declared)
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


def _grammar(
    options: ReadOptions,
    has_weights: bool,
    count: int,
    *,
    comments: str,
    tag: str = "",
    weight_type: str | None = None,
) -> LineGrammar:
    """Lines of two ids from 1 to ``count``, and of a weight if they have one."""
    weighted = has_weights and not options.no_weight
    return LineGrammar(
        fields=3 if has_weights else 2,
        weight=2 if weighted else -1,
        weight_type=(options.column_type or weight_type) if weighted else None,
        comments=comments,
        tag=tag,
        id_range=(1, count),
    )
