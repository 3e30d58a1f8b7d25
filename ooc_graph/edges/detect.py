"""Which format a file has, by its name and then by its first lines."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from ooc_graph.edges.bytestream import Peek, peek
from ooc_graph.edges.delimited import is_comment, is_number, sniff_delimiter, split_fields
from ooc_graph.edges.lines import is_count
from ooc_graph.errors import InputError

SUFFIX_FORMATS = {
    ".mtx": "mtx",
    ".mm": "mtx",
    ".gr": "gr",
    ".col": "gr",
    ".graph": "metis",
    ".metis": "metis",
    ".chaco": "metis",
    ".el": "edgelist",
    ".wel": "edgelist",
    ".edgelist": "edgelist",
    ".ncol": "edgelist",
    ".csv": "csv",
    ".tsv": "tsv",
    ".e": "graphalytics",
    ".v": "graphalytics",
    ".properties": "graphalytics",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
}
_MAGIC = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PAR1": "parquet"}
_PACKED = (".gz", ".zst")
_OF_NETWORKX = (".gexf", ".gml", ".graphml")
_SAMPLE_LINES = 200
_CHOICES = "name it with --format: edgelist, csv, tsv, mtx, gr, metis, adjacency, algs4, counted, …"


def format_of(path: str) -> str:
    """Name of the format of a file by its name, else by its content."""
    name = Path(path).name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    if (by_suffix := SUFFIX_FORMATS.get(Path(name).suffix)) is not None:
        return by_suffix
    if Path(name).suffix in _OF_NETWORKX and Path(path).is_file():
        advice = "read it with networkx, and build from its graph"
        raise InputError("is in a format that is not read", path=path, advice=advice)
    edges = (Path(f"{path}.e{packed}") for packed in ("", *_PACKED))
    if not Path(path).exists() and any(map(Path.is_file, (Path(f"{path}.properties"), *edges))):
        return "graphalytics"
    return _by_magic(path) or _by_lines(peek(path))


def _by_magic(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            start = file.read(6)
    except OSError:
        return None  # peek says what is wrong
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def _by_lines(view: Peek) -> str:
    packed = next((kind for magic, kind in _MAGIC.items() if view.text.startswith(magic)), None)
    if packed is not None:
        raise view.fault(f"is a compressed {packed} file", "unpack it first")
    if b"\x00" in view.text:
        raise view.fault("is a binary file of an unknown kind", _CHOICES)
    first = next((line for _, _, line in view.lines() if line), b"")
    if not first:
        is_empty = "the file is empty" if view.whole else "the file begins with blank lines only"
        raise view.fault(is_empty, "expected edges")
    if first.lower().startswith(b"%%matrixmarket"):
        return "mtx"
    data = (entry for entry in view.lines() if not is_comment(entry[2]))
    lines = [(number, line) for number, _, line in islice(data, _SAMPLE_LINES)]
    if not lines:
        raise view.fault("no edges in the file", "there are only comments")
    if lines[0][1][:2] in {b"p ", b"p\t", b"c ", b"c"}:
        return "gr"
    paired = any(b"," in line for _, line in lines)
    if paired and all(_is_weighted_row(line) for _, line in lines):
        return "adjacency"
    if sniff_delimiter(lines[0][1]).strip():
        return "csv"
    return _by_field_counts(view, lines)


def _is_weighted_row(line: bytes) -> bool:
    """Whether a line is ``v n,w n,w …`` (or a vertex alone)."""
    head, *rest = line.split()
    return head.isdigit() and all(word.count(b",") == 1 for word in rest) and b";" not in line


def _by_field_counts(view: Peek, lines: list[tuple[int, bytes]]) -> str:
    """Tell edge lists from lists that begin with their counts."""
    counts = [len(line.split()) for _, line in lines]
    numeric = all(is_number(field) for field in split_fields(lines[0][1], ""))
    if not numeric:
        if not any(is_number(field) for field in split_fields(lines[0][1], "")) and len(counts) > 1:
            line = lines[1][1]
            if is_number(split_fields(line, "")[0]) and counts[0] == counts[1] >= 2:
                return "csv"
        return "edgelist"
    rest = counts[2:] if counts[:2] == [1, 1] else counts[1:]
    if counts[0] == 1 and rest and (set(rest) == {3} or (counts[1] == 1 and set(rest) == {2})):
        return "algs4"
    if counts[0] == 2 and rest and set(rest) == {3}:
        return "counted"
    odd = next((at for at, count in enumerate(counts) if count != counts[0]), None)
    if odd is None and counts[0] >= 2:
        if counts[0] == 2:
            _refuse_counts(view)
        return "edgelist"
    at = odd or 0
    shown = lines[at][1][:40].decode(errors="replace")
    problem = f"one field in a line: {shown!r}"
    if odd:
        problem = f"lines differ: {counts[0]} fields at first, {counts[at]} in {shown!r}"
    advice = "an edge list has two or three fields in every line; otherwise " + _CHOICES
    raise view.fault(problem, advice, lines[at][0])


def _refuse_counts(view: Peek) -> None:
    """Refuse a short list of pairs whose first line fits as 'n m' of the lines below it.

    That is, as many lines as its second number follow, and no id in them is above its first.
    """
    data = [(number, line.split()) for number, _, line in view.lines() if not is_comment(line)]
    (first, header), rest = data[0], data[1:]
    every = (word for _, words in data for word in words)
    if not view.whole or not rest or not all(map(is_count, every)):
        return
    vertices, edges = (int(word) for word in header)
    largest = max(int(word) for _, words in rest for word in words)
    if edges == len(rest) and largest <= vertices:
        what = f"the first line may be counts (vertices, edges) or an edge: {vertices} {edges}"
        raise view.fault(what, "say which with --format counted or --format edgelist", first)
