"""Edge lists that begin with their counts.

``algs4`` (Sedgewick and Wayne): a line V, a line E (may be missing), then ``u v [w]``, ids
0 .. V-1, directed. ``counted`` (courses and contests): a line ``n m``, then ``u v [w]``, ids
1 .. n, directed. DIMACS and PACE ``.gr``: a line ``p KIND n m``, then one line per arc or edge, ids
1 .. n. ``p sp`` (9th DIMACS challenge): directed, ``a u v w``. ``p edge`` and ``p col`` (2nd
challenge): undirected, ``e u v``. ``p tw`` and other PACE problems: undirected, bare ``u v``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ooc_graph.edges.bytestream import Peek, peek, peek_only, shown
from ooc_graph.edges.delimited import is_comment, is_number, not_a_weight
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
        weighted = problem.weighted and not options.no_weight
        if not problem.weighted and options.needs_weight:
            raise view.fault("this kind of .gr file has no weights", "leave --weight out")
        grammar = LineGrammar(
            fields=3 if problem.weighted else 2,
            weight=2 if weighted else -1,
            weight_type=options.column_type if weighted else None,
            comments="c",
            tag=problem.tag,
            id_range=(1, count),
        )
        return problem, text_file(view, grammar, after, lines)
    raise view.fault("no problem line", "expected 'p sp VERTICES ARCS'")


def _problem(view: Peek, number: int, line: bytes) -> tuple[Problem, int, int]:
    words = line.decode("utf-8", "replace").split()
    numbers = words[2:]
    valid = all(is_count(word.encode()) for word in numbers)
    if words[0] != "p" or len(numbers) != 2 or words[1] not in PROBLEMS or not valid:
        advice = "expected 'p KIND VERTICES LINES' with KIND one of " + ", ".join(PROBLEMS)
        raise view.fault(f"the problem line is {shown(line)}", advice, number)
    return PROBLEMS[words[1]], int(numbers[0]), int(numbers[1])
