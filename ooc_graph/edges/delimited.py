"""Edge lists with one edge per line: SNAP, KONECT, GAP ``.el/.wel``, CSV and TSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from ooc_graph.edges.bytestream import Peek, peek
from ooc_graph.edges.lines import LineGrammar, is_count
from ooc_graph.edges.options import ChosenColumns, ReadOptions, choose_columns
from ooc_graph.edges.textsource import TextFile, TextSource, text_file
from ooc_graph.errors import InputError

DELIMITERS = "\t,;|"
_DIRECTION = re.compile(rb"^[#%]\s*(un)?directed\b", re.IGNORECASE)
_KONECT = re.compile(rb"^%\s*(sym|asym|bip)\b")


def split_fields(line: bytes, delimiter: str) -> list[str]:
    """Fields of one line as the tokenizer sees them: of blanks only ASCII's count."""
    if not delimiter:
        return [field.decode("utf-8", "replace") for field in line.split()]
    text = line.decode("utf-8", "replace")
    return [field.strip() for field in next(csv.reader([text], delimiter=delimiter))]


def is_number(field: str) -> bool:
    """Whether ``field`` is a number, NaN and infinities included."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def is_comment(line: bytes) -> bool:
    """Whether a stripped line is blank or a comment of an edge list."""
    return not line or line[:1] in {b"#", b"%"}


def open_delimited(
    name: str, delimiter: str | None, paths: Sequence[str], options: ReadOptions
) -> TextSource:
    """Separated values, by blanks if the delimiter is empty; None: it is found out if not given.

    So is the header, but edge lists have none unless the caller says so.
    """
    header = bool(options.header) if name == "edgelist" else options.header
    if options.delimiter is not None:
        delimiter = options.delimiter
    views = [peek(path) for path in paths]
    found = [_readable(view, options, delimiter, header) for view in views]
    files = [file for file in found if file is not None]
    if not files:
        raise InputError(
            "no edges in the file" if len(paths) == 1 else f"no edges in {len(paths)} files",
            path=paths[0],
            advice="expected lines 'source target [weight]'",
        )
    for file in files:
        if (file.grammar.weight < 0) != (files[0].grammar.weight < 0):
            raise InputError(
                f"has {'no ' if file.grammar.weight < 0 else ''}weights, other files differ",
                path=file.path,
                advice="name the column with --weight, or use --weight none",
            )
    directed = options.directed
    if directed is None:
        said = [one for one in map(_says_directed, views) if one is not None]
        directed = bool(said) and all(said)
    return TextSource(name, tuple(files), directed)


def _readable(
    view: Peek, options: ReadOptions, delimiter: str | None, header: bool | None
) -> TextFile | None:
    """As `_file`; Python's reader of separated values refuses some bytes."""
    try:
        return _file(view, options, delimiter, header)
    except csv.Error as error:
        advice = "expected lines that end with a newline, one edge in each"
        said = str(error).partition(" - ")[0]  # without a question to programmers
        raise view.fault(f"cannot be read as separated values: {said}", advice) from error


def _file(
    view: Peek, options: ReadOptions, delimiter: str | None, header: bool | None
) -> TextFile | None:
    """One file's grammar, or None if it has no line of edges."""
    lines = ((number, after, line) for number, after, line in view.lines() if not is_comment(line))
    start, names = view.skipped, None
    number, after, line = next(lines, (0, 0, b""))
    if not line:
        return _nothing(view)
    if delimiter is None:
        delimiter = sniff_delimiter(line)
    fields = split_fields(line, delimiter)
    if header is None:
        header = not any(is_number(field) for field in fields)
    if header:
        start, names = after, fields
        number, _, line = next(lines, (0, 0, b""))
        if not line:
            return _nothing(view)
        fields = split_fields(line, delimiter)
    chosen = _columns(view, options, names, fields)
    if names is None:
        _refuse_lost_weights(view, number, options, chosen, fields)
    grammar = LineGrammar(
        fields=len(names or fields),
        source=chosen.source,
        target=chosen.target,
        weight=-1 if chosen.weight is None else chosen.weight,
        weight_type=options.column_type,
        delimiter=delimiter,
    )
    return text_file(view, grammar, start)


def _columns(
    view: Peek, options: ReadOptions, names: list[str] | None, fields: list[str]
) -> ChosenColumns:
    count = len(names or fields)
    if count < 2:
        number = next(n for n, _, text in view.lines() if not is_comment(text))
        advice = "expected 'source target [weight]'; name the delimiter or the format"
        raise view.fault(f"one field in a line: {fields[0][:60]!r}", advice, number)
    weighted = count == 3 and len(fields) == 3 and is_number(fields[2])
    return choose_columns(options, names, count, view.path, third_is_weight=weighted)


def _refuse_lost_weights(
    view: Peek, number: int, options: ReadOptions, chosen: ChosenColumns, fields: Sequence[str]
) -> None:
    """Refuse a line whose third column should be the weight and is none, unless it was named.

    Without this the list would be read as one without weights, though later lines may have some.
    networkx writes the attributes of an edge there, in as many fields as there are blanks in them.
    """
    if options.no_weight or chosen.weight is not None or 2 in {chosen.source, chosen.target}:
        return
    if len(fields) < 3 or not is_count(fields[0].encode()) or not is_count(fields[1].encode()):
        return  # What is wrong with an id is said when lines are read.
    are_attributes = fields[2].startswith("{")
    if len(fields) == 3 or are_attributes:
        more = ", or write weights with networkx's write_weighted_edgelist"
        raise not_a_weight(view, repr(fields[2][:60]), number, more if are_attributes else "")


def not_a_weight(view: Peek, shown: str, number: int, more: str = "") -> InputError:
    """Error for a third field that should be a weight and is no number."""
    advice = "expected 'source target [weight]'; leave the third out with --weight none"
    return view.fault(f"the third field is no number: {shown}", advice + more, number)


def _nothing(view: Peek) -> TextFile | None:
    if not view.whole:
        advice = "is this an edge file? name its format with --format"
        raise view.fault(f"no line of edges in the first {len(view.text):,} bytes", advice)
    return None


def sniff_delimiter(line: bytes) -> str:
    """The separator that occurs most in a line, empty for blanks."""
    counts = {mark: line.count(mark.encode()) for mark in DELIMITERS}
    best = max(DELIMITERS, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _says_directed(view: Peek) -> bool | None:
    """What a comment above the edges says (SNAP, KONECT), None if none says it."""
    for _, _, line in view.lines():
        if not is_comment(line):
            break
        if found := _DIRECTION.match(line):
            return found.group(1) is None
        if found := _KONECT.match(line):
            if found.group(1) == b"bip":
                advice = "shift the ids of one side, and remove the line"
                raise view.fault("a bipartite KONECT graph numbers both sides from 1", advice, 1)
            return found.group(1) == b"asym"
    return None
