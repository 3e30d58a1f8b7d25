"""Matrix Market, DIMACS, METIS, adjacency lists, counted lists and LDBC Graphalytics."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.edges import open_source
from ooc_graph.errors import InputError, UsageError
from tests.unit.test_readers_text import read_all, write

BANNER = "%%MatrixMarket matrix coordinate"


def test_matrix_market_general(tmp_path: Path) -> None:
    text = f"{BANNER} real general\n% c\n\n4 4 3\n1 2 .5\n 4 1  2\n\n3 3 -1e1\n"
    source = open_source(write(tmp_path, "g.mtx", text))
    assert (source.directed, source.id_range, source.edges) == (True, (1, 4), 3)
    assert source.weight_dtype == np.float64
    assert read_all(source, 1, 1) == [(1, 2, 0.5), (4, 1, 2.0), (3, 3, -10.0)]


@pytest.mark.parametrize("symmetry", ["symmetric", "hermitian"])
def test_matrix_market_symmetric_is_undirected(tmp_path: Path, symmetry: str) -> None:
    text = f"%%MatrixMarket MATRIX Coordinate Integer {symmetry}\n3 3 2\n2 1 7\n3 3 8\n"
    source = open_source(write(tmp_path, "g.mtx", text))
    assert not source.directed
    assert source.weight_dtype == np.int64
    assert read_all(source) == [(2, 1, 7), (3, 3, 8)]
    assert open_source(write(tmp_path, "h.mtx", text), directed=True).directed


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_matrix_market_skew_symmetric_gives_both_arcs(tmp_path: Path, block: int) -> None:
    text = f"{BANNER} real skew-symmetric\n3 3 2\n2 1 1.5\n3 1 -2\n"
    source = open_source(write(tmp_path, "g.mtx", text))
    assert (source.directed, source.edges) == (True, 4)
    arcs = [(2, 1, 1.5), (1, 2, -1.5), (3, 1, -2.0), (1, 3, 2.0)]
    assert sorted(read_all(source, 100, block)) == sorted(arcs)
    assert sorted(read_all(source, 1, block)) == sorted(arcs)


def test_matrix_market_pattern_and_no_entries(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, "g.mtx", f"{BANNER} pattern general\n9 9 0\n"))
    assert (source.weighted, source.id_range, source.edges) == (False, (1, 9), 0)
    assert read_all(source) == []
    with pytest.raises(InputError, match="no weights"):
        open_source(tmp_path / "g.mtx", weight=2)


def test_matrix_market_weights_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "g.mtx", f"{BANNER} real general\n2 2 1\n1 2 inf\n")
    assert read_all(open_source(path, weight=False)) == [(1, 2, None)]
    with pytest.raises(InputError, match="not finite"):
        read_all(open_source(path))


@pytest.mark.parametrize("declared", [1, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_matrix_market_count_is_checked(tmp_path: Path, declared: int, packed: bool) -> None:
    text = f"{BANNER} pattern general\n2 2 {declared}\n1 2\n2 1\n".encode()
    path = write(tmp_path, "g.mtx.gz", gzip.compress(text)) if packed else None
    source = open_source(path or write(tmp_path, "g.mtx", text))
    with pytest.raises(InputError, match=f"declares {declared} edges, the file has 2"):
        list(source.read(source.units(100)[0], 10))
    parts = source.units(1)
    if not packed:
        assert len(parts) == 2
        assert sum(len(b) for unit in parts for b in source.read(unit, 10)) == 2
    with pytest.raises(InputError, match="cut short or its header is wrong"):
        source.check_totals(2)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (f"{BANNER} complex general\n1 1 0\n", "field 'complex' is not supported"),
        ("%%MatrixMarket matrix array real general\n1 1\n", "layout 'array'"),
        ("%%MatrixMarket vector coordinate real general\n1 0\n", "object 'vector'"),
        (f"{BANNER} pattern skew-symmetric\n1 1 0\n", "cannot be skew-symmetric"),
        (f"{BANNER} real general\n2 3 0\n", ":2: the matrix is rectangular"),
        (f"{BANNER} real general\n% only comments\n", "no size line"),
        ("1 1 1\n", "no Matrix Market banner"),
        (f"{BANNER} real general\n2 2 2 2\n", "size line is '2 2 2 2'"),
    ],
)
def test_matrix_market_headers_that_are_refused(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(write(tmp_path, "g.mtx", header))


def test_skew_symmetric_diagonal_and_smallest_integer(tmp_path: Path) -> None:
    start = "%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n"
    for line, message in (("1 1 3", "diagonal"), (f"2 1 {-(2**63)}", "no negative")):
        with pytest.raises(InputError, match=message):
            read_all(open_source(write(tmp_path, "g.mtx", start + line)))


def test_dimacs_shortest_paths(tmp_path: Path) -> None:
    text = "c x\nc\np sp 4 3\nc y\na 1 2 5\na 4 1 -7\nc\na 3 3 0\n"
    source = open_source(write(tmp_path, "g.gr", text))
    assert (source.directed, source.id_range, source.edges) == (True, (1, 4), 3)
    assert read_all(source, 1, 1) == [(1, 2, 5), (4, 1, -7), (3, 3, 0)]
    assert read_all(open_source(write(tmp_path, "no_name", text))) == read_all(source)


@pytest.mark.parametrize(("kind", "tag"), [("tw", ""), ("edge", "e "), ("col", "e ")])
def test_dimacs_undirected_kinds(tmp_path: Path, kind: str, tag: str) -> None:
    source = open_source(write(tmp_path, "g.gr", f"p {kind} 3 2\n{tag}1 2\n{tag}2 3\n"))
    assert not source.directed
    assert read_all(source) == [(1, 2, None), (2, 3, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c x\n", "no problem line"),
        ("p max 3 3\n", ":1: the problem line is 'p max 3 3'"),
        ("p sp 3\n", "problem line"),
        ("p sp 3 1\n1 2 3\n", ":2: expected a line 'a …'"),
        ("p sp 3 1\na 1 2\n", ":2: too few fields"),
        ("p sp 3 1\na 1 4 2\n", ":2: a vertex id is outside the range"),
        ("p sp 3 1\na 0 1 2\n", ":2: a vertex id is outside the range"),
        ("p sp 3 2\na 1 2 2\n", "declares 2 edges, the file has 1"),
        ("p sp 3 1\na 1 2 2\np sp 3 1\n", ":3: expected a line 'a …'"),
    ],
)
def test_dimacs_faults(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_all(open_source(write(tmp_path, "g.gr", text)))


def test_metis_plain(tmp_path: Path) -> None:
    text = "% c\n4 2\n2 3\n% inside\n1\n1\n\n"
    source = open_source(write(tmp_path, "g.graph", text))
    assert (source.directed, source.id_range, source.weighted) == (False, (1, 4), False)
    assert read_all(source, 1, 1) == [(1, 2, None), (1, 3, None), (2, 1, None), (3, 1, None)]
    # The last line is empty and has no line feed.
    assert len(read_all(open_source(write(tmp_path, "h.graph", text[:-1])))) == 4


@pytest.mark.parametrize(
    ("header", "prefix"), [("2 1 1", ""), ("2 1 011", "9 "), ("2 1 111 2", "8 9 9 ")]
)
def test_metis_weights_and_prefixes(tmp_path: Path, header: str, prefix: str) -> None:
    path = write(tmp_path, "g.graph", f"{header}\n{prefix}2 7\n{prefix}1 7\n")
    assert read_all(open_source(path)) == [(1, 2, 7), (2, 1, 7)]
    assert read_all(open_source(path, weight=False)) == [(1, 2, None), (2, 1, None)]
    assert open_source(path, weight_type="float32").weight_dtype == np.float32


def test_metis_rows_of_out_arcs(tmp_path: Path) -> None:
    path = write(tmp_path, "g.graph", "3 2\n2 3\n\n\n")
    with pytest.raises(InputError, match="use --directed for rows of out-arcs"):
        read_all(open_source(path))
    assert read_all(open_source(path, directed=True)) == [(1, 2, None), (1, 3, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x\n", "the header is 'x'"),
        ("2 1 7\n2\n1\n", "the header is"),
        ("3 1\n2\n", ":3: 3 vertices are declared, there are lines for 1"),
        ("2 1\n2\n1\n\n1\n", ":5: more lines than the file declares"),
        ("2 1\n2\n3\n", ":3: a vertex id is outside"),
        ("2 1\n2\nx\n", ":3: a vertex id is not a number: 'x'"),
        ("2 1 1\n2 5\n1\n", ":3: the weight is not a number"),
        ("2 1 1\n2 nan\n1 nan\n", ":2: the weight is not finite"),
        ("2 1 10\n\n1 1\n", ":2: the line has fewer than the 1 numbers"),
        ("2 2\n2\n1\n", "2 edges are declared, the rows list 2 neighbours"),
    ],
)
def test_metis_faults(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_all(open_source(write(tmp_path, "g.graph", text)))


def ids_of(source) -> list[int]:
    return np.unique(np.concatenate(list(source.vertex_blocks()))).tolist()


def test_adjacency_lists(tmp_path: Path) -> None:
    weighted = open_source(write(tmp_path, "g.txt", "1\t8,5\t2,0.25\n2\n\n# c\n8\t1,3\n"))
    assert weighted.format == "adjacency"
    assert read_all(weighted, 1, 1) == [(1, 8, 5), (1, 2, 0.25), (8, 1, 3)]
    assert ids_of(weighted) == [1, 2, 8]
    plain = open_source(write(tmp_path, "h", "7 1 2\n3\n"), format="adjacency")
    assert read_all(plain) == [(7, 1, None), (7, 2, None)]
    assert ids_of(plain) == [1, 2, 3, 7]
    for text, message in (("1 2,3 4\n", ":1: the weight is not a number"), ("1 2,\n", ":1:")):
        with pytest.raises(InputError, match=message):
            read_all(open_source(write(tmp_path, "i", text), format="adjacency"))


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(1, 20), max_size=30), min_size=1, max_size=20),
    ends=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(1, 40),
    buffer_bytes=st.integers(16, 200),
    cut=st.integers(0, 3),
)
def test_rows_longer_than_the_buffer(
    tmp_path_factory, rows, ends, block, buffer_bytes, cut
) -> None:
    rows = [*[[] for _ in range(19 - len(rows))], *rows, [3, 20]]
    text = f"{len(rows)} {sum(map(len, rows))}{ends}"
    text += "".join(f"% a comment{ends}" + "  ".join(map(str, row)) + f"  {ends}" for row in rows)
    text = text[: len(text) - cut]
    path = write(tmp_path_factory.mktemp("rows"), "g.graph", text)
    source = dataclasses.replace(open_source(path, directed=True), buffer_bytes=buffer_bytes)
    expected = [(i + 1, v, None) for i, row in enumerate(rows) for v in row]
    assert read_all(source, 1, block) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3\n2\n0 1 .5\n1 2 4\n", [(0, 1, 0.5), (1, 2, 4.0)]),
        ("\n3\n0 1 .5\n1 2 4\n", [(0, 1, 0.5), (1, 2, 4.0)]),
        ("3\n2\n0 1\n1 2\n", [(0, 1, None), (1, 2, None)]),
    ],
)
def test_algs4(tmp_path: Path, text: str, expected: list) -> None:
    source = open_source(write(tmp_path, "g.txt", text))
    assert (source.format, source.id_range, source.directed) == ("algs4", (0, 3), False)
    assert read_all(source) == expected


def test_counted(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, "g.txt", "3 2\n1 2 5\n3 1 -6\n"))
    assert (source.format, source.id_range, source.edges) == ("counted", (1, 3), 2)
    assert read_all(source) == [(1, 2, 5), (3, 1, -6)]
    with pytest.raises(InputError, match="outside the range"):
        read_all(open_source(write(tmp_path, "h.txt", "3 2\n1 2 5\n4 1 -6\n")))
    with pytest.raises(InputError, match="declares 4 edges, the file has 1"):
        read_all(open_source(write(tmp_path, "i.txt", "3 4\n1 2 5\n")))


PROPERTIES = """# a comment
graph.toy.vertex-file = toy.v
graph.toy.edge-file = toy.e
graph.toy.meta.vertices = 4
graph.toy.meta.edges = {edges}
graph.toy.directed = {directed}
graph.toy.edge-properties.names = {names}
graph.toy.edge-properties.types = real
"""


def ldbc(folder: Path, *, edges: int = 2, directed: str = "false", names: str = "weight") -> Path:
    text = PROPERTIES.format(edges=edges, directed=directed, names=names)
    write(folder, "toy.properties", text)
    write(folder, "toy.v", "1 a\n2 b\n5 c\n9 d\n")
    return write(folder, "toy.e", "1 2 0.5\n5 2 3\n")


@pytest.mark.parametrize("name", ["toy.e", "toy.v", "toy.properties", "toy", "."])
def test_graphalytics_by_any_of_its_paths(tmp_path: Path, name: str) -> None:
    ldbc(tmp_path)
    source = open_source(tmp_path / name)
    assert (source.format, source.directed, source.edges) == ("graphalytics", False, 2)
    assert read_all(source, 1) == [(1, 2, 0.5), (5, 2, 3)]
    assert np.concatenate(list(source.vertex_blocks())).tolist() == [1, 2, 5, 9]
    assert source.describe()["vertex_file"]["name"] == "toy.v"


def test_graphalytics_choices(tmp_path: Path) -> None:
    ldbc(tmp_path, directed="true", names="since")
    source = open_source(tmp_path / "toy.e")
    assert source.directed
    assert open_source(tmp_path / "toy.e", weight="since").weighted
    assert not open_source(tmp_path / "toy.e", directed=False, weight="none").weighted
    with pytest.raises(UsageError, match="no weight 'speed'; there are since"):
        open_source(tmp_path / "toy.e", weight="speed")


def test_graphalytics_without_properties_and_packed(tmp_path: Path) -> None:
    write(tmp_path, "a.e.gz", gzip.compress(b"1 2\n"))
    write(tmp_path, "a.v.gz", gzip.compress(b"1\n2\n3\n"))
    source = open_source(tmp_path / "a.v.gz")
    assert (source.directed, source.weighted) == (False, False)
    assert read_all(source) == [(1, 2, None)]
    assert ids_of(source) == [1, 2, 3]


def test_graphalytics_faults(tmp_path: Path) -> None:
    ldbc(tmp_path, edges=3)
    with pytest.raises(InputError, match="declares 3 edges, the file has 2"):
        read_all(open_source(tmp_path / "toy.e"))
    write(tmp_path, "toy.v", "1\n2\n5\n")
    with pytest.raises(InputError, match="4 vertices are declared, the file has 3"):
        ids_of(open_source(tmp_path / "toy.e"))
    write(tmp_path, "toy.v", "1\n-2\n")
    with pytest.raises(InputError, match=r"toy\.v:2: a vertex id is negative"):
        ids_of(open_source(tmp_path / "toy.e"))
    ldbc(tmp_path, directed="maybe")
    with pytest.raises(InputError, match="expected true or false"):
        open_source(tmp_path / "toy")
    (tmp_path / "toy.e").unlink()
    with pytest.raises(InputError, match=r"edge file 'toy\.e' is not there"):
        open_source(tmp_path / "toy.v")
