"""Files of edges and of vertices, each read twice: whole, and in small pieces."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from ooc_graph.api.vertices import ids_in
from ooc_graph.edges import opening
from ooc_graph.edges.textsource import TextSource
from ooc_graph.errors import InputError
from tests.fuzz.targets import TARGETS, Fuzzed, target

open_source = opening.open_source.__wrapped__
Edge = tuple[int, int, Any]
Options = dict[str, Any]
WHOLE_BYTES, PIECE_BYTES = 1 << 16, 300
MOST_EDGES = 1 << 16
"""More than any input has lines; a reader that gives more would not end."""


def edges_of(source: Any, edges_per_unit: int, block_edges: int) -> list[Edge]:
    """All edges in order; AssertionError if a block is not what it should be."""
    found: list[Edge] = []
    for unit in source.units(edges_per_unit):
        for block in source.read(unit, block_edges):
            found += _checked(block, block_edges)
            assert len(found) < MOST_EDGES
    source.check_totals(len(found))
    return found


def _checked(block: Any, block_edges: int) -> Iterator[Edge]:
    assert 0 < len(block) <= block_edges
    assert block.source.dtype == block.target.dtype == np.int64
    assert len(block.source) == len(block.target)
    assert min(block.source.min(), block.target.min()) >= 0
    weights: list[Any] = [None] * len(block)
    if block.weight is not None:
        assert block.weight.dtype in (np.int64, np.float32, np.float64)
        assert np.isfinite(block.weight).all()
        weights = block.weight.tolist()
    return zip(block.source.tolist(), block.target.tolist(), weights, strict=True)


def plain_edges(text: bytes, source: TextSource) -> list[Edge]:
    """Edges of text as a few lines of Python read it, by the grammar that was found."""
    (file,) = source.files
    grammar, found = file.grammar, []
    for whole in text[file.data_start :].split(b"\n"):
        line = whole.rstrip(b"\r").strip(b" \t" if grammar.delimiter != "\t" else b" ")
        if not line or line[0] in grammar.comments.encode():
            continue
        if grammar.tag:
            assert line[:1] == grammar.tag.encode()
            line = line[1:]
        fields = line.split(grammar.delimiter.encode() or None)
        assert len(fields) == grammar.fields
        weight = None if grammar.weight < 0 else fields[grammar.weight].strip(b" \t\r")
        found.append((int(fields[grammar.source]), int(fields[grammar.target]), weight))
    return found


def _require_plain(text: bytes, source: TextSource, edges: Sequence[Edge]) -> None:
    if source.mirrored or b'"' in text:
        return
    plain = plain_edges(text, source)
    assert [edge[:2] for edge in plain] == [edge[:2] for edge in edges]
    for (*_, said), (*_, weight) in zip(plain, edges, strict=True):
        if source.weight_dtype == np.float32:
            assert np.float32(float(said)) == weight
        elif said is not None:
            assert (int(said) if isinstance(weight, int) else float(said)) == weight


def _read(path: Path, choices: Sequence[Options], text_of: Any, data: bytes) -> None:
    """Read a file; of several choices of options its first byte makes one."""
    options = choices[0]
    if len(choices) > 1:
        options, data = choices[(data or b"0")[0] % len(choices)], data[1:]
    path.write_bytes(data)
    source = open_source(path, **options)
    source, pieces = _with_buffer(source, WHOLE_BYTES), _with_buffer(source, PIECE_BYTES)
    try:
        edges = edges_of(source, MOST_EDGES, MOST_EDGES)
    except InputError:
        # Some of those that are refused, to save time.
        if zlib.crc32(data) % 4 == 0:
            with pytest.raises(InputError):
                edges_of(pieces, 3, 2)
        raise
    vertices = [int(one) for block in source.vertex_blocks() for one in block]
    assert min(vertices, default=0) >= 0
    if source.id_range is not None and edges:
        first, count = source.id_range
        assert first <= min(min(edge[:2]) for edge in edges)
        assert max(max(edge[:2]) for edge in edges) < first + count
    if isinstance(source, TextSource):
        _require_plain(text_of(data), source, edges)
    try:
        again = edges_of(pieces, 3, 2)
    except InputError as error:
        # What is too long for the small buffer is not for the large one.
        if f" {PIECE_BYTES} " in str(error):
            return
        raise AssertionError("refused in pieces alone") from error
    if getattr(source, "mirrored", 0):
        # The other direction of the entries of a block follows on that block.
        again, edges = sorted(again, key=repr), sorted(edges, key=repr)
    assert len(again) == len(edges)
    assert all(map(_is_same, again, edges))


def _with_buffer(source: Any, size: int) -> Any:
    return replace(source, buffer_bytes=size) if hasattr(source, "buffer_bytes") else source


def _is_same(one: Edge, other: Edge) -> bool:
    """Of equal weights one may be an integer: what a block has depends on all that it has."""
    weights = (one[2], other[2])
    if type(one[2]) is not type(other[2]):
        weights = (float(one[2]), float(other[2]))
    return one[:2] == other[:2] and weights[0] == weights[1]


def _as_it_is(data: bytes) -> bytes:
    return data


def _edges(name: str, file: str, seeds: Sequence[Any], *choices: Options, **more: Any) -> None:
    """A format that is one file."""

    def prepare(folder: Path) -> Fuzzed:
        for beside, content in more.get("beside", {}).items():
            (folder / beside).write_text(content)
        texts = [seed if isinstance(seed, bytes) else seed.encode() for seed in seeds]
        if len(choices) > 1:
            texts = [bytes([number]) + text for number in range(len(choices)) for text in texts]
        read = partial(_read, folder / file, choices or ({},), more.get("text", _as_it_is))
        return Fuzzed(texts, read)

    TARGETS[f"edges-{name}"] = prepare


LIST = "# SNAP\n# Undirected graph\n1 2 0.5\n3\t4 7\r\n\n10 9223372036854775807 -1e-5\n"
PAIRS = "1 2\n2 3\n3 1\n1 1\n"
_WEIGHTS: list[Options] = [
    {},
    {"weight": False},
    {"weight_type": "int"},
    {"weight_type": "float32"},
]
_edges("list", "g.el", [LIST, PAIRS, "% sym\n1 2 3\n", "\ufeff1 2\n"], *_WEIGHTS, {"weight": 2})
_edges(
    "csv",
    "g.csv",
    ['source,target,weight\n1,"2",3.5\n"4", 5 ,6\n', "1;2\n3;4\n", "a|b|a\n1|2|x\n", "1,2,3\n"],
    {},
    {"header": True},
    {"header": False, "weight": "none"},
    {"columns": (1, 0)},
    {"delimiter": "space"},
    {"weight_type": "float64"},
)
_edges("tsv", "g.tsv", ["from\tto\tcost\n1\t2\t3\n4\t5\t\n", "1\t2\n"], *_WEIGHTS)
_MTX = "%%MatrixMarket matrix coordinate {}\n% c\n3 3 2\n1 2{}\n3 1{}\n"
_edges(
    "mtx",
    "g.mtx",
    [
        _MTX.format("real general", " 1.5", " -2e3"),
        _MTX.format("pattern symmetric", "", ""),
        _MTX.format("integer skew-symmetric", " 7", " -3"),
        _MTX.format("real hermitian", " 1", " 2.5"),
    ],
    {},
    {"directed": True},
    {"weight": "none"},
)
_edges(
    "gr",
    "g.gr",
    ["c x\np sp 3 2\na 1 2 3\na 3 1 7\n", "p edge 3 1\ne 1 2\n", "p tw 3 2\n1 2\nc\n2 3\n"],
)
_edges(
    "metis",
    "g.graph",
    [
        "% c\n3 2\n2\n1 3\n2\n",
        "2 1 001\n2 5\n1 5\n",
        "2 1 111 2\n1 2 3 2 5\n1 1 1 1 5\n",
        "2 0\n\n\n",
    ],
    {},
    {"directed": True},
)
_edges(
    "adjacency",
    "g.adj",
    ["1 2 3\n2 1\n4\n", "1 2,5 3,0.5\n2 1,7\n# c\n4\n"],
    {"format": "adjacency"},
    {"format": "adjacency", "weight": "none"},
)
_edges("algs4", "g.txt", ["3\n2\n0 1 0.5\n1 2 7\n", "3\n0 1\n"], {"format": "algs4"})
_edges("counted", "g.txt", ["3 2\n1 2\n2 3\n", "2 1\n1 2 5\n"], {"format": "counted"})
_edges(
    "detected",
    "g",
    [
        *(LIST, PAIRS, "a,b\n1,2\n", "3\n2\n0 1\n1 2\n", "3 2\n1 2 3\n2 3 4\n"),
        *("1 2,3\n2 1,3\n", "p sp 2 1\na 1 2 3\n", "u v\n1 2\n"),
        _MTX.format("pattern general", "", ""),
    ],
)
PROPERTIES = (
    "graph.g.vertex-file = g.v\ngraph.g.edge-file = g.e\ngraph.g.meta.vertices = 3\n"
    "graph.g.meta.edges = 2\ngraph.g.directed = true\ngraph.g.edge-properties.names = weight\n"
    "graph.g.edge-properties.types = real\n"
)
_LDBC = {"g.v": "1\n2\n3\n", "g.e": "1 2 0.5\n2 3 7\n", "g.properties": PROPERTIES}


def _beside(name: str) -> dict[str, str]:
    return {other: text for other, text in _LDBC.items() if other != name}


def _edges_beside(_: bytes) -> bytes:
    return _LDBC["g.e"].encode()


for _name, _content in _LDBC.items():
    _text = _as_it_is if _name == "g.e" else _edges_beside
    _edges(f"ldbc-{_name[2:]}", _name, [_content], beside=_beside(_name), text=_text)


def _unpacked_gzip(data: bytes) -> bytes:
    return gzip.decompress(data)


def _unpacked_zstd(data: bytes) -> bytes:
    unpacker = zstandard.ZstdDecompressor()
    with unpacker.stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
        return b"".join(iter(partial(stream.read, 1 << 16), b""))


_edges(
    "gzip",
    "g.el.gz",
    [gzip.compress(LIST.encode(), mtime=0), gzip.compress(b"1 2\n" * 300, mtime=0) * 2],
    text=_unpacked_gzip,
)
_SKIPPED = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
_edges(
    "zstd",
    "g.el.zst",
    [
        zstandard.ZstdCompressor(write_checksum=True).compress(LIST.encode()) + _SKIPPED,
        zstandard.compress(b"1 2\n" * 300) * 2,
        zstandard.ZstdCompressor(write_content_size=False).compress(PAIRS.encode()),
    ],
    text=_unpacked_zstd,
)


def _npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **options)
    return file.getvalue()


_ROWS = np.array([[1, 2], [3, 4], [5, 6]])
_edges(
    "npy",
    "g.npy",
    [
        _npy(_ROWS),
        _npy(_ROWS.T.astype(">u4")),
        _npy(np.asfortranarray(_ROWS.astype(np.int8))),
        _npy(np.c_[_ROWS, [1, 2, 3]], version=(2, 0)),
        _npy(np.array([[1.0, 2, 0.5]] * 4, "f8"), version=(3, 0)),
        _npy(np.zeros(2, [("a", "i4", (2,))])),
    ],
)


def _npz(packed: bool, **arrays: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as into:
        for name, array in arrays.items():
            into.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(array))
    return file.getvalue()


_ENDS = {"source": np.arange(5), "target": np.arange(5)[::-1].copy()}
_edges(
    "npz",
    "g.npz",
    [
        _npz(False, **_ENDS),
        _npz(True, **_ENDS, weight=np.linspace(0, 1, 5)),
        _npz(False, edges=_ROWS),
        _npz(
            True, row=np.arange(3, dtype="u1"), col=np.arange(3, dtype="u8"), data=np.ones(3, "f2")
        ),
    ],
)


def _parquet(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    return file.getvalue()


_edges(
    "parquet",
    "g.parquet",
    [
        _parquet({"source": [1, 2, 3], "target": [2, 3, 1]}, compression="none", row_group_size=2),
        _parquet(
            {"u": [1, 2], "v": pyarrow.array([2, 3], "uint8"), "w": [0.5, 1.5]},
            compression="none",
            use_dictionary=False,
            store_schema=False,
        ),
    ],
)


@target("roots-text")
def roots(folder: Path) -> Fuzzed:
    path = folder / "roots.txt"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = ids_in(path)
        assert found.dtype == np.int64
        lines = [line.strip() for line in data.decode().splitlines() if line.strip()]
        if data.isascii() and not any(mark in data for mark in b"\x0b\x0c\x1c\x1d\x1e"):
            assert found.tolist() == [int(line) for line in lines if not line.startswith("#")]

    return Fuzzed([b"1\n2\n\n# c\n 9223372036854775807 \r\n3\n+4"], read)


@target("roots-npy")
def roots_npy(folder: Path) -> Fuzzed:
    path = folder / "roots.npy"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        assert ids_in(path).dtype == np.int64

    return Fuzzed([_npy(np.arange(4)), _npy(np.arange(3, dtype=">u2"), version=(2, 0))], read)
