"""DIMACS and PACE ``.gr``: a line ``p KIND n m``, then one line per arc or edge, ids 1 .. n.

``p sp`` (9th DIMACS challenge): directed, ``a u v w``. ``p edge`` and ``p col`` (2nd challenge):
undirected, ``e u v``. ``p tw`` and other PACE problems: undirected, bare ``u v``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ooc_graph.edges.bytestream import Peek, peek
from ooc_graph.edges.lines import LineGrammar, is_count
from ooc_graph.edges.options import ReadOptions
from ooc_graph.edges.textsource import TextFile, TextSource, text_file
from ooc_graph.errors import InputError


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
    for problem, file in read:
        if (problem, file.grammar.id_range) != (read[0][0], files[0].grammar.id_range):
            raise InputError(
                "differs from the first file in its problem line",
                path=file.path,
                advice="files of one graph need the same kind and number of vertices",
            )
    directed = options.is_directed(read[0][0].directed)
    return TextSource("gr", files, directed, files[0].grammar.id_range)


def _read_header(view: Peek, options: ReadOptions) -> tuple[Problem, TextFile]:
    for number, after, line in view.lines():
        words = line.split()
        if not words or words[0][:1] == b"c":
            continue
        problem, count, lines = _problem(view.path, number, line)
        weighted = problem.weighted and not options.no_weight
        if not problem.weighted and options.needs_weight:
            raise InputError(
                "this kind of .gr file has no weights", path=view.path, advice="leave --weight out"
            )
        grammar = LineGrammar(
            fields=3 if problem.weighted else 2,
            weight=2 if weighted else -1,
            weight_type=options.column_type if weighted else None,
            comments="c",
            tag=problem.tag,
            id_range=(1, count),
        )
        return problem, text_file(view, grammar, after, lines)
    raise InputError("no problem line", path=view.path, advice="expected 'p sp VERTICES ARCS'")


def _problem(path: str, number: int, line: bytes) -> tuple[Problem, int, int]:
    words = line.decode("utf-8", "replace").split()
    numbers = words[2:]
    valid = all(is_count(word.encode()) for word in numbers)
    if words[0] != "p" or len(numbers) != 2 or words[1] not in PROBLEMS or not valid:
        raise InputError(
            f"the problem line is {line[:60].decode('utf-8', 'replace')!r}",
            path=path,
            line=number,
            advice="expected 'p KIND VERTICES LINES' with KIND one of " + ", ".join(PROBLEMS),
        )
    return PROBLEMS[words[1]], int(numbers[0]), int(numbers[1])
