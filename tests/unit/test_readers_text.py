"""Edge lists, CSV and TSV: what is accepted, and that splitting changes nothing."""

from __future__ import annotations

import dataclasses
import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.edges import EdgeSource, open_source
from ooc_graph.errors import InputError, UsageError
from ooc_graph.types import EdgeBlock


def read_all(source: EdgeSource, edges_per_unit: int = 1 << 20, block_edges: int = 1 << 16):
    """All tuples in order, as lists; units are read last first and put back in order."""
    parts: list[tuple[int, list[EdgeBlock]]] = []
    for unit in reversed(source.units(edges_per_unit)):
        blocks = list(source.read(pickle.loads(pickle.dumps(unit)), block_edges))
        assert all(0 < len(block) <= block_edges for block in blocks)
        assert all(block.source.dtype == block.target.dtype == np.int64 for block in blocks)
        parts.append((unit.index, blocks))
    ordered = [block for _, blocks in sorted(parts, key=lambda part: part[0]) for block in blocks]
    edges = [
        (int(u), int(v), None if block.weight is None else block.weight[i].item())
        for block in ordered
        for i, (u, v) in enumerate(zip(block.source, block.target, strict=True))
    ]
    source.check_totals(len(edges))
    return edges


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "1 2\n3 4\n",
        "1 2\n3 4",
        "1 2\r\n3 4\r\n",
        "1 2\r\n3 4\r",
        "\ufeff1 2\n3 4\n",
        "# a comment\n% another\n\n1\t2  \n   3    4\t\n\n# end\n",
        "  # indented comment\n\t1 \t 2\n3 4\n   \n\r\n",
        "001 0000000000000000000000002\n3 4\n",
    ],
)
def test_accepted_spellings(tmp_path: Path, text: str) -> None:
    assert read_all(open_source(write(tmp_path, "g.txt", text))) == [(1, 2, None), (3, 4, None)]


def test_ids_reach_the_largest_int64(tmp_path: Path) -> None:
    path = write(tmp_path, "g.el", f"0 {2**63 - 1}\n")
    assert read_all(open_source(path)) == [(0, 2**63 - 1, None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2 7\n3 4 -8\n", [(1, 2, 7), (3, 4, -8)]),
        (f"1 2 {2**63 - 1}\n3 4 {-(2**63)}\n", [(1, 2, 2**63 - 1), (3, 4, -(2**63))]),
        ("1 2 7\n3 4 0.5\n", [(1, 2, 7.0), (3, 4, 0.5)]),
        ("1 2 .5\n3 4 +5.\n", [(1, 2, 0.5), (3, 4, 5.0)]),
        ("1 2 1e3\n3 4 2E-2\n", [(1, 2, 1000.0), (3, 4, 0.02)]),
        ("1 2 3 4\n5 6 7 8\n", [(1, 2, None), (5, 6, None)]),
    ],
)
def test_third_column(tmp_path: Path, text: str, expected: list) -> None:
    assert read_all(open_source(write(tmp_path, "g.el", text))) == expected


def test_weight_types(tmp_path: Path) -> None:
    path = write(tmp_path, "g.wel", "1 2 16777217\n3 4 1\n")
    auto = open_source(path)
    assert auto.weighted
    assert auto.weight_dtype is None
    assert next(iter(auto.read(auto.units(9)[0], 9))).weight.dtype == np.int64
    for name, dtype in (("int", np.int64), ("float32", np.float32), ("float64", np.float64)):
        source = open_source(path, weight_type=name)
        assert source.weight_dtype == dtype
        weight = next(iter(source.read(source.units(9)[0], 9))).weight
        assert weight.dtype == dtype
        assert weight[0] == dtype(16777217)
    assert not open_source(path, weight=False).weighted
    assert read_all(open_source(path, weight="none"))[0] == (1, 2, None)


def test_integers_beyond_2_53_are_rounded_once_when_a_float_comes_late(tmp_path: Path) -> None:
    path = write(tmp_path, "g.wel", f"1 2 {2**53 + 1}\n3 4 {2**63 - 1}\n5 6 0.5\n")
    weights = [weight for _, _, weight in read_all(open_source(path))]
    assert weights == [float(2**53 + 1), float(2**63 - 1), 0.5]


def test_csv_with_header_quotes_and_chosen_columns(tmp_path: Path) -> None:
    text = 'note,to,from,cost\n"a, ""b""",2,"1",0.5\nplain, 4 , 3 ,1.5\n'
    path = write(tmp_path, "g.csv", text)
    assert read_all(open_source(path)) == [(1, 2, 0.5), (3, 4, 1.5)]
    assert read_all(open_source(path, columns=("to", "from"), weight=False)) == [
        (2, 1, None),
        (4, 3, None),
    ]
    assert read_all(open_source(path, columns=(2, 1), weight=3))[0] == (1, 2, 0.5)
    assert read_all(open_source(path, columns=("2", "1"), weight="3"))[0] == (1, 2, 0.5)
    with pytest.raises(UsageError, match="no column 'speed'; there are note, to, from, cost"):
        open_source(path, weight="speed")
    with pytest.raises(UsageError, match="no column 4"):
        open_source(path, weight=4)
    with pytest.raises(UsageError, match="different columns"):
        open_source(path, columns=("to", "to"))


@pytest.mark.parametrize("mark", [",", ";", "|", "\t", " "])
def test_csv_delimiters_are_found(tmp_path: Path, mark: str) -> None:
    rows = [("a", "b", "weight"), ("1", "2", "3"), ("4", "5", "6")]
    text = "\n".join(mark.join(row) for row in rows)
    expected = [(1, 2, 3), (4, 5, 6)]
    assert read_all(open_source(write(tmp_path, "g.csv", text))) == expected
    assert read_all(open_source(write(tmp_path, "h.txt", text))) == expected
    assert read_all(open_source(write(tmp_path, "i.csv", text.split("\n", 1)[1]))) == expected


def test_tsv_keeps_empty_fields_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "g.tsv", "src\tnote\tdst\n1\t\t2\n3\tx y\t4\n")
    assert read_all(open_source(path)) == [(1, 2, None), (3, 4, None)]


def test_header_of_an_unnamed_weight_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "a,b,rating\n1,2,3\n")
    with pytest.raises(InputError, match="neither is known"):
        open_source(path)
    assert not open_source(path, columns=("a", "b")).weighted
    assert read_all(open_source(path, weight="rating")) == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("comment", "directed"),
    [
        ("# Undirected graph: x.txt", False),
        ("# Directed graph (each unordered pair", True),
        ("% sym unweighted", False),
        ("% asym weighted", True),
        ("# nothing said", False),
    ],
)
def test_direction_from_comments(tmp_path: Path, comment: str, directed: bool) -> None:
    path = write(tmp_path, "g.txt", f"{comment}\n1 2\n")
    assert open_source(path).directed is directed
    assert open_source(path, directed=not directed).directed is not directed


def test_bipartite_konect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bipartite"):
        open_source(write(tmp_path, "out.x", "% bip unweighted\n1 1\n"))


def gz(text: bytes) -> bytes:
    return gzip.compress(text[:5]) + gzip.compress(text[5:])


def zst(text: bytes) -> bytes:
    pack = zstandard.ZstdCompressor().compress
    return pack(text[:5]) + pack(text[5:])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gz), (".zst", zst)])
def test_compressed_members(tmp_path: Path, suffix: str, pack) -> None:
    text = "".join(f"{i} {i * i}\n" for i in range(30_000)).encode()
    expected = [(i, i * i, None) for i in range(30_000)]
    path = write(tmp_path, "g.txt" + suffix, pack(text))
    source = open_source(path)
    assert len(source.units(10)) == 1
    assert read_all(source, 10, 777) == expected
    small = dataclasses.replace(source, buffer_bytes=100)
    assert read_all(small, 10, 7) == expected
    # The content decides, not the name.
    assert read_all(open_source(write(tmp_path, "g.el", pack(text)))) == expected


def test_several_files_and_folders(tmp_path: Path) -> None:
    one = write(tmp_path, "part-0.csv", "src,dst,weight\n1,2,3\n")
    two = write(tmp_path, "part-1.csv.gz", gzip.compress(b"dst,weight,src\n5,6,4\n"))
    write(tmp_path, "part-2.csv", "src,dst,weight\n")
    write(tmp_path, "_SUCCESS", "")
    expected = [(1, 2, 3), (4, 5, 6)]
    assert read_all(open_source([one, two])) == expected
    assert read_all(open_source(str(tmp_path))) == expected
    names = [file["name"] for file in open_source(str(tmp_path)).describe()["files"]]
    assert names == ["part-0.csv", "part-1.csv.gz"]
    with pytest.raises(UsageError, match="twice"):
        open_source([one, one])


def test_files_that_disagree_on_weights_are_refused(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.el", "1 2\n"), write(tmp_path, "b.el", "1 2 3\n")
    with pytest.raises(InputError, match="other files differ"):
        open_source([one, two])


def test_description_and_pickle(tmp_path: Path) -> None:
    path = write(tmp_path, "g.wel", "1 2 3\n")
    source = pickle.loads(pickle.dumps(open_source(path)))
    record = source.describe()
    assert record["format"] == "edgelist"
    assert record["files"][0]["bytes"] == 6
    assert len(record["files"][0]["sha256"]) == 64
    assert open_source(source) is source


LINE = st.one_of(
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 1000)),
    st.sampled_from(["", "# comment 1 2", "% x", "   "]),
)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(LINE, max_size=40),
    ends=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
    blanks=st.sampled_from([" ", "\t", "  \t "]),
    per_unit=st.integers(1, 50),
    block=st.integers(1, 20),
    buffer_bytes=st.integers(64, 300),
)
def test_units_and_blocks_equal_the_whole(
    tmp_path_factory, lines, ends, last, bom, blanks, per_unit, block, buffer_bytes
) -> None:
    lines = [(0, 1), *lines]
    spelled = [line if isinstance(line, str) else f"{line[0]}{blanks}{line[1]}" for line in lines]
    text = ("\ufeff" if bom else "") + ends.join(spelled) + (ends if last else "")
    path = write(tmp_path_factory.mktemp("split"), "g.el", text)
    source = dataclasses.replace(open_source(path), buffer_bytes=buffer_bytes)
    expected = [(*line, None) for line in lines if not isinstance(line, str)]
    assert read_all(source, per_unit, block) == expected
