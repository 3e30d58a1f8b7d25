"""Every byte at every place of small texts: the tokenizers end, and read nothing wrong."""

from __future__ import annotations

import csv
import multiprocessing
import sys

import numpy as np
import pytest

from ooc_graph.edges.lines import LineGrammar
from ooc_graph.edges.rows import RowGrammar
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.kernels.cpu.build.edge_text import tokenize_lines
from ooc_graph.kernels.cpu.build.row_text import S_LINE, S_NEIGHBOR, S_VERTEX, STATES, tokenize_rows

LIMIT_S = 240
DONE = 42
BLANKS = " \t"

LINES = {
    "edgelist": (LineGrammar(2), b"1 2\n2 3\n"),
    "edgelist with weights": (LineGrammar(3, weight=2), b" 1\t2 7\r\n#\n12 3 .5"),
    "edgelist with more": (LineGrammar(4), b"1 2 3 4\n5 6 7 8\n"),
    "csv": (LineGrammar(2, delimiter=","), b"1,2\n 2 ,3\n"),
    "csv with quotes": (LineGrammar(3, weight=2, delimiter=","), b'1,"2",3\n"4" ,5,-6\r\n'),
    "csv with more": (LineGrammar(3, source=1, target=2, delimiter=";"), b'a;1;2\n"b""";3;4'),
    "tsv": (LineGrammar(3, target=2, delimiter="\t"), b"1\t\t2\n3\tx\t4\n"),
    "gr": (
        LineGrammar(3, weight=2, comments="c", tag="a", id_range=(1, 9)),
        b"a 1 2 3\nc\na 4 5 6",
    ),
}
ROWS = {
    "metis": (RowGrammar(numbered=True, id_range=(1, 3)), b"2 3\n1\n1\n"),
    "metis with weights": (
        RowGrammar(numbered=True, skip=1, paired=True, weighted=True, id_range=(1, 2)),
        b"9 2 7\n% c\r\n8 1 7 \n",
    ),
    "adjacency": (RowGrammar(), b"1 2 3\n\n# c\n2\n"),
    "adjacency with weights": (RowGrammar(paired=True, weighted=True), b"1\t8,5 2,.5\r\n2\n"),
}


def changed(text: bytes):
    """The text with every byte put in at, and in place of, every position."""
    for at in range(len(text) + 1):
        for byte in range(256):
            yield text[:at] + bytes([byte]) + text[at:]
            yield text[:at] + bytes([byte]) + text[at + 1 :]


def columns(rows: int):
    return (
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.float64),
        np.empty((rows, 3), np.int64),
    )


def fuzz_lines(name: str) -> None:
    grammar, whole = LINES[name]
    parameters, out = grammar.parameters(), columns(16)
    for text in changed(whole):
        raw = np.frombuffer(text, np.uint8)
        rows, at, status, _, _ = tokenize_lines(raw, 0, len(raw), parameters, out)
        assert at <= len(text), text
        if status != decimals.OK:
            assert at == 0 or text[at - 1] == 10, text
        pairs = list(zip(out[0][:rows].tolist(), out[1][:rows].tolist(), strict=True))
        assert pairs == expected_pairs(text[:at], grammar), text


def expected_pairs(text: bytes, grammar: LineGrammar) -> list[tuple[int, int]]:
    """The ids as plain Python finds them in lines that were accepted."""
    pairs = []
    for line in text.decode("latin-1").split("\n"):
        bare = line.strip(BLANKS + "\r").removeprefix(grammar.tag)
        if not bare or line.lstrip(BLANKS)[0] in grammar.comments:
            continue
        if grammar.delimiter:
            reader = csv.reader([line.rstrip("\r")], delimiter=grammar.delimiter)
            fields = [field.strip(BLANKS).strip('"') for field in next(reader)]
        else:
            fields = bare.replace("\t", " ").split(" ")
            fields = [field for field in fields if field]
        pairs.append((int(fields[grammar.source]), int(fields[grammar.target])))
    return pairs


def fuzz_rows(name: str) -> None:
    grammar, whole = ROWS[name]
    parameters, out, heads = grammar.parameters(), columns(16), np.empty(16, np.int64)
    for text in changed(whole):
        raw = np.frombuffer(text, np.uint8)
        state = np.zeros(STATES, np.int64)
        state[S_VERTEX], state[S_LINE], state[S_NEIGHBOR] = 1, 1, -1
        rows, _, at, status, _, _ = tokenize_rows(raw, 0, len(raw), parameters, state, out, heads)
        assert rows < 16, text
        assert at == len(text) or status != decimals.OK, text
        assert state[S_LINE] == text[:at].count(b"\n") + 1, text


def run(name: str) -> None:
    (fuzz_lines if name in LINES else fuzz_rows)(name)
    sys.exit(DONE)


@pytest.mark.parametrize("name", [*LINES, *ROWS])
def test_every_byte_at_every_place(name: str) -> None:
    # In a process of its own: a kernel that does not end can only be ended from outside.
    worker = multiprocessing.get_context("spawn").Process(target=run, args=(name,))
    worker.start()
    worker.join(LIMIT_S)
    if worker.is_alive():
        worker.kill()
        worker.join()
        pytest.fail(f"the tokenizer did not end within {LIMIT_S} s")
    assert worker.exitcode == DONE
