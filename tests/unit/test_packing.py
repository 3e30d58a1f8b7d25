"""Packed numbers: how they lie, what damage to them does, and stores that are built of them."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import CorruptStoreError
from ooc_graph.kernels.cuda.build.store_rows import StoreRows
from ooc_graph.layout import chunks, names
from ooc_graph.layout.chunks import read_chunk, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.packing import SLOTS, Packing, block_length
from ooc_graph.layout.stored import Stored
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_tables import SideWriter
from ooc_graph.shards.tally import Tally, packings_of
from tests.unit.test_build_oracle import (
    SIZES,
    UNHURRIED,
    ListSource,
    build_here,
    random_source,
    small_steps,
    sources,
)
from tests.unit.test_chunk_sink import made_folder, workforce

UNIT = 512
DTYPES = ("uint32", "uint64", "int32", "int64")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of 64 numbers of 8 bytes, and eight of them a chunk."""
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(chunks, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 8 * UNIT)


def drawn(seed: int, length: int, dtype: str, bits: int) -> tuple[np.ndarray[Any, Any], Packing]:
    """Numbers of some bits above the least of them, extremes among them."""
    kind, rng = np.iinfo(dtype), np.random.default_rng(seed)
    bits = min(bits, kind.bits)
    base = int(rng.integers(kind.min, kind.max - (1 << bits) + 1, dtype=dtype, endpoint=True))
    parts = rng.integers(0, (1 << bits) - 1, length, np.uint64, endpoint=True).tolist()
    parts[:2] = [0, (1 << bits) - 1][:length]
    return np.array([base + part for part in parts], dtype), Packing(bits, base)


def unpacked(packed: bytes, length: int, bits: int, base: int, unit: int) -> list[int]:
    """What the page on storage says, one number at a time."""
    found: list[int] = []
    for first in range(0, length, unit):
        count = min(unit, length - first)
        lanes = -(-count // 64)
        words = np.frombuffer(packed[: 8 * bits * lanes], "<u8").reshape(bits, lanes)
        packed = packed[8 * bits * lanes :]
        for number in range(count):
            slot, lane = divmod(number, lanes)
            of_lane = sum(int(word) << (64 * place) for place, word in enumerate(words[:, lane]))
            found.append((of_lane >> slot * bits & ((1 << bits) - 1)) + base)
    return found


@settings(deadline=None, max_examples=80)
@given(
    dtype=st.sampled_from(DTYPES),
    bits=st.integers(1, 64),
    length=st.integers(0, 200),
    wanted=st.integers(0, 200),
    seed=st.integers(0, 99),
)
def test_packed_numbers_come_back(
    dtype: str, bits: int, length: int, wanted: int, seed: int
) -> None:
    data, packing = drawn(seed, length, dtype, bits)
    packed = packing.pack(data)
    assert len(packed) == packing.bytes_of(length, data.dtype)
    assert len(packed) == 8 * packing.bits * -(-length // SLOTS)
    for count in (length, min(wanted, length)):
        out = np.full(count, 1, dtype)
        packing.unpack(packed, length, out)
        assert out.tobytes() == data[:count].tobytes()
    args = length, packing.bits, packing.base, block_length(data.dtype)
    assert unpacked(packed.tobytes(), *args) == data.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_units_come_back(dtype: str) -> None:
    """Of the size that stores have; three of them and a part, cut at any number."""
    unit = block_length(np.dtype(dtype))
    data, packing = drawn(1, 3 * unit + 777, dtype, 21)
    packed = np.concatenate([packing.pack(data[i : i + unit]) for i in range(0, len(data), unit)])
    assert len(packed) == packing.bytes_of(len(data), data.dtype)
    for count in (len(data), len(data) - 1, 3 * unit, unit + 1, unit, unit - 1, 0):
        out = np.zeros(count, dtype)
        packing.unpack(packed, len(data), out)
        assert np.array_equal(out, data[:count])


def test_what_does_not_fit_is_refused() -> None:
    packing = Packing(3, -2)
    packing.pack(np.array([-2, 5], np.int32))
    for bad in ([-3], [6], [0, 1 << 30]):
        with pytest.raises(ValueError, match="more than 3 bits above -2"):
            packing.pack(np.array(bad, np.int32))
    with pytest.raises(ValueError, match="more than a block"):
        packing.pack(np.zeros(block_length(np.dtype(np.int32)) + 1, np.int32))
    with pytest.raises(ValueError, match="23 bytes are not 5 numbers of 3 bits"):
        packing.unpack(np.zeros(23, np.uint8), 5, np.zeros(5, np.int32))
    for bits in (0, 65):
        with pytest.raises(ValueError, match=f"numbers of {bits} bits"):
            Packing(bits)


def test_ranges_take_the_fewest_bits() -> None:
    def of(least: int, most: int, dtype: str = "int64") -> Packing | None:
        return Packing.of_range(least, most, np.dtype(dtype))

    assert of(0, 0) == Packing(1)
    assert of(0, 1) == Packing(1)
    assert of(0, 2) == Packing(2)
    assert of(-3, 4) == Packing(3, -3)
    assert of(5, (1 << 31) - 1, "int32") == Packing(31, 5)
    assert of(0, (1 << 32) - 1, "uint32") is None
    assert of(-(1 << 63), (1 << 63) - 1) is None
    assert of(-1, (1 << 62) + 1) == Packing(63, -1)


def test_columns_are_packed_where_that_saves() -> None:
    heavy = Tally(9, 0, -7, 8)
    int64 = np.dtype(np.int64)
    assert packings_of(1025, 4096, int64, heavy) == {
        "offsets": Packing(13),
        "neighbors": Packing(11),
        "weights": Packing(4, -7),
    }
    assert set(packings_of(5, 9, np.dtype(np.float32), Tally(9, 0, 0.5, 1.5))) == {
        "offsets",
        "neighbors",
    }
    assert packings_of(0, 0, None, Tally()) == {"offsets": Packing(1), "neighbors": Packing(1)}
    # From 2^32 vertices on ids take 64 bits in memory, and 33 packed.
    assert packings_of((1 << 32) + 1, 9, None, heavy)["neighbors"] == Packing(33)


@pytest.mark.usefixtures("tiny")
@settings(deadline=None, max_examples=6)
@given(
    dtype=st.sampled_from(DTYPES),
    bits=st.integers(1, 64),
    length=st.integers(0, 1200),
    cut=st.integers(0, 1200),
    seed=st.integers(0, 99),
)
def test_chunks_of_packed_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    bits: int,
    length: int,
    cut: int,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    data, packing = drawn(seed, length, dtype, bits)
    spec = ArraySpec("a", length, data.dtype, packing=packing)
    document = spec.document()
    assert ArraySpec.from_document("a", json.loads(document)) == spec
    for index in range(spec.chunks):
        start, stop = spec.bounds(index)
        part = data[start:stop]
        entry = write_chunk(folder, spec, index, [part[:cut], part[cut:]])
        assert entry.size == spec.chunk_bytes + names.CRC_BYTES
        assert len(entry.sidecar) == -(-spec.chunk_bytes // spec.block_bytes)
        out = np.empty_like(part)
        read_chunk(folder, spec, index, out, entry.crc32c or 0)
        assert out.tobytes() == part.tobytes()
    (folder / "a").mkdir(exist_ok=True)
    (folder / "a" / "zarr.json").write_bytes(document)
    array = zarr.open_array(str(folder / "a"), mode="r")
    assert (array.dtype, array.shape) == (np.dtype(np.uint8), (spec.chunks * spec.chunk_bytes,))
    content = np.asarray(array[:]).tobytes()
    found: list[int] = []
    for index in range(spec.chunks):
        start, stop = spec.bounds(index)
        chunk = content[index * spec.chunk_bytes : (index + 1) * spec.chunk_bytes]
        args = spec.chunk, packing.bits, packing.base, block_length(spec.dtype)
        found += unpacked(chunk, *args)[: stop - start]
    assert found == data.tolist()


def test_numbers_that_were_not_counted_before_are_refused(tmp_path: Path) -> None:
    spec = ArraySpec("a", 3, np.dtype("uint32"), packing=Packing(4, 5))
    with pytest.raises(OSError, match=r"^a: a number takes more than 4 bits .* changed while"):
        write_chunk(tmp_path, spec, 0, [np.array([5, 20, 21], np.uint32)])


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("harm", ["flip", "cut", "longer", "remove", "last bytes"])
def test_a_harmed_chunk_is_named(harm: str, tmp_path: Path) -> None:
    data, packing = drawn(3, 5000, "uint32", 19)
    spec = ArraySpec("a", len(data), data.dtype, packing=packing)
    entry = write_chunk(tmp_path, spec, 1, [data[slice(*spec.bounds(1))]])
    path, out = tmp_path / "a/c/1", np.empty(spec.chunk, data.dtype)
    content = path.read_bytes()
    harmed = {
        "flip": content[:700] + bytes([content[700] ^ 4]) + content[701:],
        "cut": content[:700],
        "longer": content + b"\0",
        "last bytes": content[:-1] + bytes([content[-1] ^ 1]),
    }
    path.unlink()
    if harm != "remove":
        path.write_bytes(harmed[harm])
    said = {
        "flip": "is damaged",
        "cut": f"has 700 bytes, expected {len(content)}",
        "longer": f"has more than {len(content)} bytes",
        "remove": "is missing",
        "last bytes": "is damaged",
    }
    with pytest.raises(CorruptStoreError, match=f"c/1: chunk 1 of a {said[harm]}"):
        read_chunk(tmp_path, spec, 1, out, entry.crc32c or 0)
    path.write_bytes(content)
    read_chunk(tmp_path, spec, 1, out, entry.crc32c or 0)
    assert np.array_equal(out, data[slice(*spec.bounds(1))])


def test_plain_arrays_are_described_as_ever() -> None:
    """The bytes of this are hashed: they stay as they were before anything was packed."""
    document = json.loads(ArraySpec("a", 3, np.dtype(np.uint32)).document())
    assert document == {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [3],
        "data_type": "uint32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "crc32c"},
        ],
        "attributes": {},
        "storage_transformers": [],
    }


@settings(UNHURRIED, max_examples=8)
@given(
    source=sources(),
    sizes=st.tuples(SIZES, SIZES),
    slots=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    shards=st.sampled_from([1, 4]),
)
def test_a_compressed_store_holds_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    source: ListSource,
    sizes: tuple[dict[str, int], dict[str, int]],
    slots: tuple[int, int],
    shards: int,
) -> None:
    folder = tmp_path_factory.mktemp("same")
    with small_steps(**sizes[0]):
        build_here(source, folder / "plain.zarr", shards=shards)
        plain = Stored.open(folder / "plain.zarr")
        arrays = {spec.path: plain.read(spec.path) for spec in plain.arrays()}
    identities = []
    for number in (0, 1):
        with small_steps(**{**sizes[number], "chunk": sizes[0]["chunk"]}):
            out = folder / f"{number}.zarr"
            build_here(source, out, shards=shards, compress=True, slots=slots[number])
            stored = Stored.open(out)
            stored.verify()
            assert stored.attributes == {**plain.attributes, "compressed": True}
            assert {spec.path for spec in stored.arrays()} == set(arrays)
            for path, data in arrays.items():
                found = stored.read(path)
                assert found.dtype == data.dtype
                assert found.tobytes() == data.tobytes()
            identities.append(stored.identity)
    assert identities[0] == identities[1] != plain.identity


@pytest.mark.parametrize("weight", [None, "int64", "float32"])
def test_fewer_bytes_are_written(weight: str | None, tmp_path: Path) -> None:
    source = random_source(2, vertices=3000, edges=60_000, weight=weight)
    sizes = {}
    for compress in (False, True):
        build_here(source, tmp_path / f"{compress}.zarr", compress=compress)
        stored = Stored.open(tmp_path / f"{compress}.zarr")
        for spec in stored.arrays():
            column = spec.path.rpartition("/")[2]
            size = sum(
                stored.manifest.files[spec.chunk_path(index)].size - names.CRC_BYTES
                for index in range(spec.chunks)
            )
            sizes[compress, column] = 8 * size / spec.length
    arcs = 2 * 60_000
    # 64 numbers are packed together: the last ones may be few.
    assert sizes[True, "neighbors"] == pytest.approx(12, rel=0.01)
    assert sizes[True, "offsets"] == pytest.approx(arcs.bit_length(), rel=0.05)
    for column in ("original_of", "internal_of", "tuples"):
        assert sizes[True, column] == sizes[False, column]
    if weight == "int64":
        # From -4 << 33 to 4 << 33, or -4 to 4, as `random_source` has them.
        assert sizes[True, "weights"] < sizes[False, "weights"]
    if weight == "float32":
        assert sizes[True, "weights"] == 32


@pytest.mark.parametrize("cuts", [[], [1, 700, 1030]])
@pytest.mark.usefixtures("tiny")
def test_a_device_packs_as_the_build_does(cuts: list[int], tmp_path: Path) -> None:
    """What CUDA builds write their rows with, given arrays in host memory."""
    rows = 1500
    lengths = np.arange(rows) % 7
    neighbors = (np.repeat(np.arange(rows), lengths) * 5 % rows).astype(np.uint32)
    weights = (neighbors.astype(np.int32) % 9) - 4
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    total = Tally(9, 0, -4, 4)
    packings = packings_of(rows, 2 * len(neighbors), weights.dtype, total)
    assert set(packings) == {"offsets", "neighbors", "weights"}
    columns = {
        "hub/offsets": ends,
        "light/offsets": ends,
        "hub/neighbors": neighbors,
        "light/neighbors": neighbors,
        "light/weights": weights,
    }
    expected = {}
    whole = made_folder(tmp_path / "whole")
    for name, data in columns.items():
        packing = packings[name.rpartition("/")[2]]
        spec = ArraySpec(f"shards/00000/out/{name}", len(data), data.dtype, packing=packing)
        for index in range(spec.chunks):
            entry = write_chunk(whole, spec, index, [data[slice(*spec.bounds(index))]])
            expected[entry.path] = entry
    with ThreadPoolExecutor(2) as executor:
        sink = ChunkSink(
            made_folder(tmp_path / "cut"), workforce(executor), lambda n: np.empty(n, np.uint8)
        )
        starts = np.array([0, rows])
        writer = SideWriter(sink, "out", ("hub", "light"), starts, weights.dtype, packings)
        for low, high in zip([0, *cuts], [*cuts, rows], strict=True):
            part = slice(int(ends[low]), int(ends[high]))
            offsets = ends[low : high + 1] - ends[low]
            given_rows = StoreRows(offsets, neighbors[part], neighbors[part], weights[part])
            writer.add(low, high, given_rows)
        writer.finish()
        sink.finish()
    assert {entry.path: entry for entry in sink.entries} == expected
    assert len(sink.specs) == 5


def test_the_page_on_storage_unpacks(tmp_path: Path) -> None:
    """What the page gives for readers without this package, on a store that Zarr reads."""
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "storage.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(program, "storage.md", "exec"), space)
    source = random_source(3, vertices=3000, edges=40_000, weight="int64")
    build_here(source, tmp_path / "g.zarr", compress=True)
    stored = Stored.open(tmp_path / "g.zarr")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="r")
    for column in ("offsets", "neighbors", "weights"):
        path = f"shards/00000/out/light/{column}"
        array, wanted = group[path], stored.read(path)
        told: Any = array.attrs["ooc_graph"]
        assert told["packed"]["length"] == len(wanted) > 3 * SLOTS
        content = np.asarray(array[:]).tobytes()
        if told["packed"]["base"] < 0:
            found = space["unpacked"](content, told["packed"] | {"base": 0}).view(np.int64)
            found += told["packed"]["base"]
        else:
            found = space["unpacked"](content, told["packed"])
        assert np.array_equal(found[: len(wanted)], wanted)
