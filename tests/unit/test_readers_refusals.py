"""Input that could be read in two ways is refused, with what to say instead."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import zstandard

from ooc_graph.edges import open_source
from ooc_graph.edges.bytestream import ByteReader
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError, UsageError
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.unit.test_readers_text import read_all, write

NAMED = [
    (("edge_id", "source", "dest_node"), "only 'source' is known"),
    (("when", "note", "dst"), "only 'dst' is known"),
    (("source", "b"), "only 'source' is known"),
    (("a", "b", "rating"), "neither is known"),
    (("weight", "a", "b"), "neither is known"),
    (("a", "b", "weight", "d"), "neither is known"),
]


@pytest.mark.parametrize(("names", "message"), NAMED)
def test_headers_that_do_not_say_which_columns(tmp_path: Path, names, message: str) -> None:
    row = range(900, 900 + len(names))
    text = f"{','.join(names)}\n{','.join(map(str, row))}\n"
    path = write(tmp_path, "g.csv", text)
    with pytest.raises(InputError, match=message) as caught:
        open_source(path)
    assert ", ".join(names) in str(caught.value)
    assert "source= and target=" in caught.value.advice
    assert read_all(open_source(path, columns=names[:2], weight=False)) == [(900, 901, None)]


@pytest.mark.parametrize(("names", "message"), NAMED)
def test_tables_that_do_not_say_which_columns(tmp_path: Path, names, message: str) -> None:
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({name: [at] for at, name in enumerate(names)})
    frame.to_parquet(tmp_path / "g.parquet")
    for given in (tmp_path / "g.parquet", dd.from_pandas(frame, npartitions=1)):
        with pytest.raises(InputError, match=message) as caught:
            open_source(given)
        assert ", ".join(names) in str(caught.value)
        assert read_all(open_source(given, columns=names[:2], weight=False)) == [(0, 1, None)]


@pytest.mark.parametrize(
    ("header", "options", "expected"),
    [
        ("a,b", {}, (1, 2, None)),
        ("a,b,Weight", {}, (1, 2, 3)),
        ("a,b,Weight", {"weight": False}, (1, 2, None)),
        ("a,b,rating", {"weight": "rating"}, (1, 2, 3)),
        ("a,b,rating", {"weight": 2}, (1, 2, 3)),
        ("Person.id,Person.id,creationDate", {}, (1, 2, None)),
        ("Person.id,Person.id.1,creationDate", {}, (1, 2, None)),
        ("node1,node2,since", {}, (1, 2, None)),
        ("note,to,from", {}, (3, 2, None)),
    ],
)
def test_headers_that_say_enough(tmp_path: Path, header: str, options, expected) -> None:
    path = write(tmp_path, "g.csv", header + "\n1,2,3\n"[: 2 * header.count(",") + 2] + "\n")
    assert read_all(open_source(path, **options)) == [expected]


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_square_arrays_are_ambiguous(tmp_path: Path, shape) -> None:
    array = np.arange(shape[0] * shape[1]).reshape(shape)
    np.save(tmp_path / "g.npy", array)
    np.save(tmp_path / "f.npy", np.asfortranarray(array))
    np.savez(tmp_path / "g.npz", array)
    given = [array, *(tmp_path / name for name in ("g.npy", "f.npy", "g.npz"))]
    for source in given:
        with pytest.raises(InputError, match=r"edges in its rows or in its columns") as caught:
            open_source(source)
        assert "source, target" in caught.value.advice
    assert read_all(open_source((array[:, 0], array[:, 1]))) == [
        (0, 1, None),
        (shape[1], shape[1] + 1, None),
    ]


def test_a_first_line_that_may_be_counts(tmp_path: Path) -> None:
    text = "# c\n3 2\n1 2\n\n3 1\n"
    path = write(tmp_path, "g.txt", text)
    with pytest.raises(InputError, match=r"g\.txt:2: the first line may be counts") as caught:
        open_source(path)
    assert "format='counted'" in caught.value.advice
    assert "edgelist" in caught.value.advice
    assert read_all(open_source(path, format="counted")) == [(1, 2, None), (3, 1, None)]
    assert read_all(open_source(path, format="edgelist"))[0] == (3, 2, None)
    many = "500 300\n" + "".join(f"{i} {i + 1}\n" for i in range(1, 301))
    with pytest.raises(InputError, match="may be counts"):
        open_source(write(tmp_path, "h.txt", many))
    # An id above n, another number of lines, one line: an edge list.
    for other in (many + "1 2\n", many.replace("300 301", "300 501"), "1 0\n"):
        assert open_source(write(tmp_path, "i.txt", other)).format == "edgelist"


@pytest.mark.parametrize(
    "text",
    [
        "4 2\n2\n3\n4\n1\n",  # a ring of arcs, as many as two edges have
        "4 2\n2 2\n3\n4\n\n",
        "2 1 1\n2 5\n1 6\n",
        "2 2 1\n2 5 2 7\n1 5 1 8\n",
        "3 3\n1 2\n2\n1 2 3\n",
    ],
)
def test_metis_rows_that_do_not_mirror_each_other(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "g.graph", text)
    with pytest.raises(InputError, match="not listed from both ends") as caught:
        read_all(open_source(path))
    assert "--directed" in caught.value.advice
    assert read_all(open_source(path, directed=True))


@pytest.mark.parametrize("block", [1, 2, 100])
def test_metis_rows_that_mirror_each_other(tmp_path: Path, block: int) -> None:
    # Weights 5 and 5.0, 0 and -0, an edge twice, loops once and twice.
    text = "3 4 1\n2 5 2 .5 3 0\n1 .5 1 5.0\n3 1 3 1 1 -0.\n"
    assert len(read_all(open_source(write(tmp_path, "g.graph", text)), 9, block)) == 8
    text = "3 3\n2 1\n1 3\n2\n"
    assert len(read_all(open_source(write(tmp_path, "h.graph", text)), 9, block)) == 5
    unlike = write(tmp_path, "i.graph", "2 1 1\n2 5\n1 6\n")
    assert len(read_all(open_source(unlike, weight=False), 9, block)) == 2


def zst_frames(text: bytes) -> list[bytes]:
    """Frames of several kinds, all of the same text."""
    streamed = io.BytesIO()
    with zstandard.ZstdCompressor(write_checksum=True).stream_writer(
        streamed, closefd=False
    ) as writer:
        for start in range(0, len(text), 1000):
            writer.write(text[start : start + 1000])
            writer.flush(zstandard.FLUSH_BLOCK)
    skippable = b"\x5a\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"ignored"
    return [
        streamed.getvalue(),
        zstandard.ZstdCompressor(write_content_size=False).compress(text),
        skippable + zstandard.ZstdCompressor(write_checksum=True, level=19).compress(text),
        zstandard.compress(text[:3]) + skippable + zstandard.compress(text[3:]) + skippable,
        zstandard.compress(b"") + zstandard.compress(text),
    ]


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("length", [0, 1, 255, 256, 66_000, 700_000])
def test_zstd_frames(tmp_path: Path, kind: int, length: int) -> None:
    text = np.random.default_rng(length).integers(48, 58, length, np.uint8).tobytes()
    packed = zst_frames(text)[kind]
    path = write(tmp_path, "g.zst", packed)
    out = bytearray(length + 10)
    with ByteReader(str(path)) as reader:
        assert reader.fill(memoryview(out)) == length
    assert bytes(out[:length]) == text


def test_zstd_output_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path, "g.zst", zstandard.compress(bytes(256 << 20)))
    assert path.stat().st_size < 16_000
    total, most = in_own_process(unpacked, path)
    assert total == 256 << 20
    assert most < 3 << 20


def unpacked(path: Path) -> tuple[int, int]:
    """Bytes that a file holds, and bytes of memory that reading them takes at once."""
    view, got = memoryview(bytearray(1 << 20)), []

    def read() -> None:
        with ByteReader(str(path)) as reader:
            got.append(sum(iter(lambda: reader.fill(view), 0)))

    most = traced_peak(read, 2 << 20)
    return got[0], most


def test_zstd_faults_inside(tmp_path: Path) -> None:
    good = zstandard.ZstdCompressor(write_checksum=True).compress(b"1 2\n" * 9)
    for text, message in (
        (good[:-1] + bytes([good[-1] ^ 1]), "cannot be read"),
        (good + b"junk", "cannot be read"),
        (good + b"ju", "cannot be read"),
        (good + b"\x5a\x2a\x4d\x18\x09\x00\x00\x00abc", "ends early"),
    ):
        with pytest.raises(InputError, match=message):
            read_all(open_source(write(tmp_path, "g.el.zst", text)))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_arrays_and_tables(tmp_path: Path, pack) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "a.npy", np.arange(8).reshape(4, 2))
    np.savez(tmp_path / "a.npz", source=np.arange(2), target=np.arange(2))
    pandas.DataFrame({"source": [1], "target": [2]}).to_parquet(tmp_path / "a.parquet")
    suffix = ".gz" if pack is gzip.compress else ".zst"
    for name in ("a.npy", "a.npz", "a.parquet"):
        packed = pack((tmp_path / name).read_bytes())
        for path in (name + suffix, "packed" + suffix, name):
            with pytest.raises(InputError, match="compressed") as caught:
                open_source(write(tmp_path, path, packed))
            assert caught.value.advice.startswith("unpack it first")


def test_generator_totals() -> None:
    source = Kronecker(4)
    source.check_totals(256)
    with pytest.raises(InputError, match="256 edges are expected, 255 were read"):
        source.check_totals(255)


def test_delimiter_of_no_byte(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="delimiter"):
        open_source(write(tmp_path, "g.csv", "1\x002\n"), delimiter="\0")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.mtx", "%%MatrixMarket matrix coordinate pattern general\n{0} {0} 1\n1 2\n"),
        ("g.graph", "{0} 1\n2\n1\n"),
        ("g.gr", "p sp {0} 1\na 1 2 3\n"),
        ("g.properties", "graph.g.meta.vertices = {0}\n"),
    ],
)
def test_a_header_with_more_digits_than_python_converts(
    tmp_path: Path, name: str, text: str
) -> None:
    write(tmp_path, "g.e", "1 2\n")
    with pytest.raises(InputError, match="9999"):
        open_source(write(tmp_path, name, text.format("9" * 5000)))


def test_a_list_with_more_digits_than_python_converts(tmp_path: Path) -> None:
    path = write(tmp_path, "g.txt", f"{'9' * 5000} 1\n1 2\n")
    with pytest.raises(InputError, match="above 2\\^63-1"):
        read_all(open_source(path))
    with pytest.raises(InputError, match="expected 'vertices edges'"):
        open_source(path, format="counted")


@pytest.mark.parametrize(
    ("name", "text", "line", "shown"),
    [
        ("g.txt", "1 2 {}\n2 3 {}\n", 1, "'{}'"),
        ("g.edgelist", "# of networkx\n1 2 {'weight': 3.0}\n2 3 {'weight': 4.0}\n", 2, "weight"),
        ("g.el", "1 2 x\n5 6 7\n", 1, "'x'"),
        ("g.el", "\n% KONECT\n1 2 0x7\n", 3, "'0x7'"),
        ("g.csv", "1,2,friend\n5,6,7\n", 1, "'friend'"),
        ("g.csv", "1,2,\n5,6,7\n", 1, "''"),
        ("g.tsv", "1\t2\ta b\n", 1, "'a b'"),
        ("g.txt", "3 2\n1 2 x\n2 3 x\n", 2, "'x'"),
        ("g.txt", "3\n2\n1 2 x\n2 1 x\n", 3, "'x'"),
    ],
)
def test_a_third_field_that_is_no_weight(
    tmp_path: Path, name: str, text: str, line: int, shown: str
) -> None:
    """Silence would lose the weights of all lines, as a later such line is refused."""
    path = write(tmp_path, name, text)
    with pytest.raises(InputError, match="the third field is no number") as caught:
        open_source(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert shown in str(caught.value)
    assert "weight='none'" in caught.value.advice
    assert ("networkx" in caught.value.advice) == ("{" in text)
    source = open_source(path, weight="none")
    assert all(weight is None for _, _, weight in read_all(source))


def test_a_third_column_that_is_no_weight_because_of_others(tmp_path: Path) -> None:
    """Its own place is asked for, its name is another, or an id is what is wrong."""
    between = write(tmp_path, "g.txt", "1 friend 2\n2 friend 3\n")
    assert read_all(open_source(between, columns=(0, 2))) == [(1, 2, None), (2, 3, None)]
    named = write(tmp_path, "g.csv", "source,target,kind\n1,2,friend\n")
    assert read_all(open_source(named)) == [(1, 2, None)]
    four = write(tmp_path, "four.txt", "1 2 friend 1999\n2 3 friend 2001\n")
    assert read_all(open_source(four)) == [(1, 2, None), (2, 3, None)]
    header = write(tmp_path, "g.el", "from to cost\n1 2 3\n")
    with pytest.raises(InputError, match="a vertex id is not a number"):
        read_all(open_source(header))


@pytest.mark.parametrize("paths", ["", ["a.txt", ""], ("",)])
def test_an_empty_path(paths) -> None:
    """The system takes it for the folder that we are in."""
    with pytest.raises(UsageError, match="an empty word is no path"):
        open_source(paths)
