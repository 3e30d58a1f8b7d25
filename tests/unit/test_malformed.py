"""Bad input is refused with path, line, what was expected and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard

from ooc_graph.edges import open_source
from ooc_graph.errors import InputError, UsageError
from tests.shared_data import need_shared, shared_dir
from tests.unit.test_readers_text import read_all, write


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("g.txt", "", None, "the file is empty"),
        ("g.el", "", None, "no edges in the file"),
        ("g.csv", "", None, "no edges in the file"),
        ("g.csv", "source,target\n", None, "no edges in the file"),
        ("g.txt", "# a\n\n# b\n", None, "no edges in the file"),
        ("g.el", "# a\n1\n", 2, "one field in a line"),
        ("g.el", "1 2\n# c\n3\n", 3, "too few fields"),
        ("g.txt", "1 2\n3\n", 2, "lines differ: 2 fields at first, 1 in '3'"),
        ("g.el", "1 2\n3 4 5\n", 2, "too many fields"),
        ("g.el", "1 2 3\n3 4\n", 2, "too few fields"),
        ("g.el", "1 2\n3 x\n", 2, "a vertex id is not a number"),
        ("g.el", "a b\n", 1, "a vertex id is not a number"),
        ("g.csv", "alice,bob\ncarol,dan\n", 2, "a vertex id is not a number"),
        ("g.el", "1 2\n3 4.0\n", 2, "a vertex id is not a number"),
        ("g.el", "1 2\n+3 4\n", 2, "a vertex id is not a number"),
        ("g.el", "1 2\n-3 4\n", 2, "a vertex id is negative"),
        ("g.el", f"1 2\n3 {2**63}\n", 2, "a vertex id is above 2^63-1"),
        ("g.el", f"1 2\n3 {2**64 + 5}\n", 2, "a vertex id is above 2^63-1"),
        ("g.el", "1 2\n3 " + "9" * 40 + "\n", 2, "a vertex id is above 2^63-1"),
        ("g.el", "1 2 3\n3 4 nan\n", 2, "the weight is not finite"),
        ("g.el", "1 2 3\n3 4 -inf\n", 2, "the weight is not finite"),
        ("g.el", "1 2 3\n3 4 1e999\n", 2, "the weight is not finite"),
        ("g.el", "1 2 3\n3 4 5x\n", 2, "the weight is not a number"),
        ("g.el", f"1 2 3\n3 4 {2**63}\n", 2, "the integer weight does not fit 64 bits"),
        ("g.csv", "1,2,3\n4,5,\n", 2, "the weight is not a number"),
        ("g.csv", "1,2,3\n4,,5\n", 2, "a vertex id is not a number"),
        ("g.csv", 'u,v,n\n1,2,"x\ny"\n', 2, "a quoted field does not end"),
        ("g.el", "1 2\n3 4\r5 6\n", 2, "a carriage return without a line feed"),
        ("g.el", "1 2\r3 4\r", 1, "a carriage return without a line feed"),
        ("g.el", "1 2\n3\x004 5\n", 2, "a control character"),
        ("g.el", "1 2\n2 3\x1a\n", 2, "a control character"),
        ("g.wel", "1 2 3\n2 3 4 \x0b\n", 2, "a control character"),
        ("g.graph", "2 1\n2\x1a\n1\n", 2, "a control character"),
        ("g.gr", "p sp 2 1\na 1 2 3\x1f\n", 2, "a control character"),
        ("g.bin", b"\x00\x01\x02\x03", None, "binary file"),
        ("g.el", "1 2\n".encode("utf-16"), None, "UTF-16"),
        ("g.el.gz", b"1 2\n", None, "the content is not compressed that way"),
        ("g.el.xz", b"\xfd7zXZ\x00", None, "xz files are not read"),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str | bytes, line: int | None, message: str):
    path = write(tmp_path, name, text)
    with pytest.raises(InputError, match=message.replace("^", r"\^")) as caught:
        read_all(open_source(path))
    assert (str(caught.value.path), caught.value.line) == (str(path), line)
    assert caught.value.advice
    assert str(path) in str(caught.value)


def test_line_numbers_far_into_a_file_and_in_any_unit(tmp_path: Path) -> None:
    good = "".join(f"{i} {i}\r\n# c\r\n" for i in range(5000))
    plain = write(tmp_path, "g.el", good + "1 x\r\n" + good)
    packed = write(tmp_path, "h.el.gz", gzip.compress(plain.read_bytes()))
    for path, per_unit in ((plain, 100), (plain, 10**9), (packed, 1)):
        source = open_source(path)
        failing = []
        for unit in source.units(per_unit):
            try:
                list(source.read(unit, 1000))
            except InputError as error:
                failing.append(error.line)
        assert failing == [10_001]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_truncated_and_damaged(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"{i} {i * 7919 % 100_003}\n" for i in range(200_000)).encode()
    packed = gzip.compress(text) if suffix == ".gz" else zstandard.compress(text)
    for keep in (len(packed) - 1, len(packed) // 2, 20):
        path = write(tmp_path, "g.txt" + suffix, packed[:keep])
        with pytest.raises(InputError, match="ends early") as caught:
            read_all(open_source(path))
        assert caught.value.line is not None
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    with pytest.raises(InputError):
        read_all(open_source(write(tmp_path, "h.txt" + suffix, bytes(flipped))))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path / "none.el")
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path / "none.txt")
    with pytest.raises(InputError, match="no such file"):
        open_source([tmp_path / "none.npy"])
    with pytest.raises(InputError, match="directory without edge files"):
        open_source(tmp_path)


def test_formats_that_do_not_agree(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.el", "1 2\n"), write(tmp_path, "b.csv", "1,2\n")
    with pytest.raises(InputError, match="different formats"):
        open_source([one, two])
    with pytest.raises(UsageError, match="there are edgelist, csv"):
        open_source(one, format="nope")
    for kind in ("int8", ["int"]):
        with pytest.raises(UsageError, match="weight type"):
            open_source(one, weight_type=kind)
    with pytest.raises(UsageError, match="name two columns"):
        open_source(one, columns=0)
    for mark in (",,", "1", "x", "-", "\u00a6", 1, b","):
        with pytest.raises(UsageError, match="delimiter"):
            open_source(two, delimiter=mark)


def test_options_that_would_be_ignored(tmp_path: Path) -> None:
    matrix = "%%MatrixMarket matrix coordinate pattern general\n1 1 0\n"
    path = write(tmp_path, "g.mtx", matrix)
    for options in ({"columns": (0, 1)}, {"header": True}, {"delimiter": ","}):
        with pytest.raises(UsageError, match="format mtx does not have it"):
            open_source(path, **options)
    pairs = np.array([[1, 2]])
    for options in ({"columns": (0, 1)}, {"header": True}, {"format": "npy"}):
        with pytest.raises(UsageError, match=r"does not have it|only files have one"):
            open_source(pairs, **options)
    with pytest.raises(UsageError, match="directed: an EdgeSource does not have it"):
        open_source(open_source(pairs), directed=False)


def test_weights_that_a_file_does_not_have(tmp_path: Path) -> None:
    for name, text, form in (
        ("g.gr", "p tw 2 1\n1 2\n", None),
        ("g.graph", "2 1\n2\n1\n", None),
        ("a.txt", "1 2 3\n", "adjacency"),
        ("b.txt", "2\n1\n0 1\n", "algs4"),
    ):
        with pytest.raises(InputError, match=r"no weights|no edge weights"):
            open_source(write(tmp_path, name, text), format=form, weight=2)


def test_ambiguous_files_name_the_formats(tmp_path: Path) -> None:
    for text in ("3 2\n2\n1 3\n2\n", "5\n1 2\n3 4\n", "7\n"):
        with pytest.raises(InputError, match="edgelist, csv, tsv, mtx, gr, metis, adjacency"):
            open_source(write(tmp_path, "g.txt", text))


# What is accepted, and what it must then read as: (edges, id_range).
ACCEPTED = {
    "lagraph/mangled_bool.mtx": (12, (1, 7)),
    "lagraph/mangled_int8.mtx": (12, (1, 7)),
    "fast_matrix_market/permissive_banner_leading_spaces_eye3.mtx": (3, (1, 3)),
    "fast_matrix_market/permissive_lines_indented.mtx": (1, (1, 1)),
    "fast_matrix_market/overflow_index_gt_int8.mtx": (1, (1, 1000)),
    "fast_matrix_market/overflow_value_gt_int32.mtx": (1, (1, 3)),
    "algs4-style/err_wgt_file.txt": (1, (0, 2)),
    "algs4-style/1line.txt": (0, (0, 2)),
    "algs4-style/oneEWD.txt": (1, (0, 2)),
    "igraph/graph3.ncol": (3, None),
    "ogdf-metis/commented.chaco": (8, (1, 5)),
    "ogdf-metis/weighted.chaco": (3, (1, 3)),
}
FORMATS = {"mtx": "mtx", "METIS/Chaco": "metis", "el": None, "ncol": None, "csv": None}


def malformed() -> list[dict[str, str]]:
    folder = shared_dir()
    if folder is None:
        return []
    entries: list[dict[str, str]] = json.loads(
        (folder / "data/malformed/malformed.json").read_text()
    )
    return entries


@pytest.mark.parametrize("entry", malformed(), ids=lambda entry: entry["file"])
def test_malformed_files_of_other_projects(entry: dict[str, str]) -> None:
    path = need_shared("data/" + entry["file"])
    name = entry["file"].removeprefix("malformed/")
    form = FORMATS.get(entry["format"], "algs4")
    if name not in ACCEPTED:
        assert not entry["expect"].startswith("accept as")
        with pytest.raises(InputError) as caught:
            read_all(open_source(path, format=form))
        assert str(caught.value.path) == str(path)
        assert caught.value.line is not None
        return
    assert entry["expect"] != "reject"
    source = open_source(path, format=form)
    assert (len(read_all(source)), source.id_range) == ACCEPTED[name]


def test_values_of_accepted_files() -> None:
    folder = need_shared("data/malformed")
    big = open_source(folder / "fast_matrix_market/overflow_value_gt_int32.mtx")
    assert read_all(big) == [(2, 2, 8589934592)]
    negative = open_source(folder / "algs4-style/err_wgt_file.txt", format="algs4")
    assert read_all(negative) == [(0, 1, -0.5)]
    chaco = open_source(folder / "ogdf-metis/weighted.chaco")
    assert read_all(chaco) == [(1, 1, 13.229), (1, 2, 15.0), (2, 1, 15.0)]


def test_all_malformed_files_are_listed() -> None:
    assert len({entry["file"] for entry in malformed()}) == 49 or shared_dir() is None
