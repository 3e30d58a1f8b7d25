"""Chunk files, metadata documents and manifests, written here and read by the Zarr library."""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
import weakref
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import CorruptStoreError, NotAStoreError
from ooc_graph.layout import stored
from ooc_graph.layout.chunks import FileEntry, read_chunk, write_chunk
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.metadata import ArraySpec, group_document, parent_groups
from ooc_graph.layout.names import (
    CHUNK_BYTES,
    SIDECAR_BYTES,
    chunk_length,
    id_dtype,
    internal_dtype,
    shards_for,
    sidecar_path,
)
from ooc_graph.layout.stored import Cursor, Stored
from ooc_graph.ranges import alongside
from tests.unit.test_build_oracle import small_steps

DTYPES = ["int32", "int64", "uint32", "uint64", "float32", "float64"]


def write_store(path: Path, arrays: dict[str, np.ndarray], pieces: int = 3) -> None:
    with partial_store(path, "graph", overwrite=False) as partial:
        specs = [ArraySpec(name, len(data), data.dtype) for name, data in arrays.items()]
        entries = [
            write_chunk(
                partial.folder,
                spec,
                index,
                np.array_split(arrays[spec.path][slice(*spec.bounds(index))], pieces),
            )
            for spec in specs
            for index in range(spec.chunks)
        ]
        partial.commit("graph", {"some": [1, 2.5, None], "thing": "ä"}, specs, entries)


@settings(deadline=None, max_examples=30)
@given(
    dtype=st.sampled_from(DTYPES),
    length=st.integers(0, 200),
    chunk=st.sampled_from([8, 40, 256, 1 << 20]),
    seed=st.integers(0, 99),
)
def test_zarr_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, dtype: str, length: int, chunk: int, seed: int
) -> None:
    path = tmp_path_factory.mktemp("zarr") / "s.zarr"
    bits = np.random.default_rng(seed).integers(0, 256, length * 8, np.uint8)
    data = bits.view(f"u{np.dtype(dtype).itemsize}")[:length].view(dtype)
    with small_steps(chunk=chunk):
        write_store(path, {"a": data, "deep/er/b": data[::-1].copy()})
        stored = Stored.open(path)
        assert stored.read("a").tobytes() == data.tobytes()
        blocks = list(stored.blocks("a"))
        assert b"".join(block.tobytes() for block in blocks) == data.tobytes()
        assert len(blocks) == -(-length * np.dtype(dtype).itemsize // chunk) or length == 0
        stored.verify()
        assert "deep/er/b" in stored
        assert "deep/er" in zarr.open_group(str(path), mode="r")
        assert "c" not in stored
    array = zarr.open_array(str(path / "a"), mode="r")
    assert (array.shape, array.dtype) == ((length,), np.dtype(dtype))
    assert np.asarray(array[:]).tobytes() == data.tobytes()
    deep = zarr.open_array(str(path / "deep/er/b"), mode="r")
    assert np.asarray(deep[:]).tobytes() == data[::-1].tobytes()
    group = zarr.open_group(str(path), mode="r")
    assert group.attrs["ooc_graph"] == {"some": [1, 2.5, None], "thing": "ä"}
    with warnings.catch_warnings():
        # Zarr warns of the manifest and the sidecars, which are none of its business.
        warnings.simplefilter("ignore")
        assert sorted(group.array_keys()) == ["a"]
        assert sorted(group.group_keys()) == ["deep"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 5_000_000])
def test_array_documents_are_what_zarr_takes_them_for(
    dtype: str, length: int, tmp_path: Path
) -> None:
    spec = ArraySpec("a", length, np.dtype(dtype))
    (tmp_path / "zarr.json").write_bytes(spec.document())
    array = zarr.open_array(str(tmp_path), mode="r")
    assert (array.shape, array.dtype, array.chunks) == ((length,), np.dtype(dtype), (spec.chunk,))
    assert array.fill_value == 0
    assert [type(codec).__name__ for codec in array.metadata.codecs] == [
        "BytesCodec",
        "Crc32cCodec",
    ]
    assert ArraySpec.from_document("a", json.loads(spec.document())) == spec


def test_group_documents_are_what_zarr_takes_them_for(tmp_path: Path) -> None:
    for number, attributes in enumerate([None, {}, {"k": {"deep": [1]}}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "zarr.json").write_bytes(group_document(attributes))
        group = zarr.open_group(str(folder), mode="r")
        assert dict(group.attrs) == ({} if attributes is None else {"ooc_graph": attributes})
    assert parent_groups("a/b/c") == ["a", "a/b"]
    assert parent_groups("a") == []


@pytest.mark.parametrize(
    "change",
    [
        {"fill_value": 1},
        {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
        {"shape": [3, 1]},
        {"dimension_names": ["x"]},
    ],
)
def test_an_array_stored_otherwise_is_refused(change: dict[str, object]) -> None:
    document = json.loads(ArraySpec("a", 3, np.dtype(np.int32)).document()) | change
    with pytest.raises(ValueError, match="not stored the way"):
        ArraySpec.from_document("a", document)


def test_chunk_file_is_elements_padding_and_crc(tmp_path: Path) -> None:
    with small_steps(chunk=32):
        spec = ArraySpec("a", 6, np.dtype(np.int64))
        entry = write_chunk(
            tmp_path, spec, 1, [np.array([5]), np.array([], np.int64), np.array([6])]
        )
        body = np.array([5, 6, 0, 0]).tobytes()
        crc = google_crc32c.value(body)
        assert (tmp_path / "a/c/1").read_bytes() == body + struct.pack("<I", crc)
        assert (entry.path, entry.size, entry.crc32c) == ("a/c/1", 36, crc)
        out = np.empty(2, np.int64)
        read_chunk(tmp_path, spec, 1, out, crc)
        np.testing.assert_array_equal(out, [5, 6])


@pytest.mark.parametrize("parts", [[3], [1, 1, 1, 1, 1], []])
def test_a_chunk_needs_all_of_its_elements(tmp_path: Path, parts: list[int]) -> None:
    spec = ArraySpec("a", 4, np.dtype(np.int32))
    with pytest.raises(ValueError, match="of 4 elements"):
        write_chunk(tmp_path, spec, 0, [np.zeros(n, np.int32) for n in parts])


def test_a_chunk_of_another_dtype_is_not_written(tmp_path: Path) -> None:
    spec = ArraySpec("a", 4, np.dtype(np.int32))
    with pytest.raises(ValueError, match="int64 given for int32"):
        write_chunk(tmp_path, spec, 0, [np.zeros(4, np.int64)])


def test_sidecar_has_the_crc_of_every_64_kib(tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 1 << 30, 50_000)
    write_store(tmp_path / "s.zarr", {"deep/a": data}, pieces=7)
    sidecar = np.fromfile(tmp_path / "s.zarr" / sidecar_path("deep/a"), "<u4")
    body = data.tobytes()
    want = [
        google_crc32c.value(body[at : at + SIDECAR_BYTES])
        for at in range(0, len(body), SIDECAR_BYTES)
    ]
    np.testing.assert_array_equal(sidecar, want)


@pytest.mark.parametrize(
    "size", [1, 3, SIDECAR_BYTES - 1, SIDECAR_BYTES, SIDECAR_BYTES + 1, 3 * SIDECAR_BYTES, 500_000]
)
@pytest.mark.parametrize("zeros", ["none", "first", "all"])
def test_crc_of_a_chunk_follows_from_those_of_its_parts(
    size: int, zeros: str, tmp_path: Path
) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    data[: {"none": 0, "first": SIDECAR_BYTES, "all": size}[zeros]] = 0
    for pieces in (1, 7):
        spec = ArraySpec(f"a{pieces}", size, data.dtype)
        entry = write_chunk(tmp_path, spec, 0, np.array_split(data, pieces))
        assert entry.crc32c == google_crc32c.value(data.tobytes())


def test_negative_zero_and_nan_bits_survive(tmp_path: Path) -> None:
    data = np.array([0x8000000000000000, 0x7FF8000000000001, 1], np.uint64).view(np.float64)
    write_store(tmp_path / "s.zarr", {"a": data})
    assert Stored.open(tmp_path / "s.zarr").read("a").tobytes() == data.tobytes()


def test_manifest_survives_encoding_and_knows_its_version(tmp_path: Path) -> None:
    entries = [FileEntry("b", 3, "blake3:ff"), FileEntry("a/c/0", 8, "blake3:ee", 0)]
    manifest = Manifest.of("graph", entries)
    assert manifest.sha256 == Manifest.of("graph", entries[::-1]).sha256
    assert manifest.sha256 != Manifest.of("result", entries).sha256
    (tmp_path / "manifest.json").write_bytes(manifest.encode())
    assert Manifest.load(tmp_path) == manifest
    assert Manifest.load(tmp_path).files["a/c/0"].crc32c == 0
    newer = manifest.encode().replace(b'"version": 2', b'"version": 3')
    (tmp_path / "manifest.json").write_bytes(newer)
    with pytest.raises(NotAStoreError, match="format version 3, this package reads 1 to 2"):
        Manifest.load(tmp_path)


def signed(path: Path, body: object) -> None:
    """Write a manifest that has the hash of its body."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    document = {"sha256": digest, "body": body}
    text = json.dumps(document, sort_keys=True, indent=1) + "\n"
    (path / "manifest.json").write_text(text)


def of_version_1(path: Path) -> None:
    """Rewrite the manifest of a store as format version 1 had it."""
    body = json.loads((path / "manifest.json").read_bytes())["body"]
    for name, row in body["files"].items():
        del row["blake3"]
        row["sha256"] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    signed(path, body | {"version": 1})


def test_stores_of_version_1_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    data = np.arange(50_000)
    write_store(path, {"a": data})
    before = Manifest.load(path)
    of_version_1(path)
    store = Stored.open(path)
    assert (store.manifest.version, before.version) == (1, 2)
    assert store.identity != before.sha256
    np.testing.assert_array_equal(store.read("a"), data)
    assert len(store.sidecar("a")) == -(-data.nbytes // SIDECAR_BYTES)
    store.verify()
    with (path / "a/c/0").open("r+b") as file:
        file.write(b"?")
    with pytest.raises(CorruptStoreError, match="chunk 0 of a differs from what the manifest says"):
        store.verify()
    (path / "a/zarr.json").write_bytes((path / "a/zarr.json").read_bytes()[::-1])
    with pytest.raises(CorruptStoreError, match="damaged metadata"):
        Stored.open(path)


@pytest.mark.parametrize("hashes", [{}, {"md5": "0"}, {"blake3": "0", "sha256": "0"}])
def test_files_without_one_known_hash(hashes: dict[str, str], tmp_path: Path) -> None:
    write_store(tmp_path / "s.zarr", {"a": np.arange(3)})
    body = json.loads((tmp_path / "s.zarr/manifest.json").read_bytes())["body"]
    row = body["files"]["a/c/0"]
    del row["blake3"]
    row |= hashes
    signed(tmp_path / "s.zarr", body)
    with pytest.raises(CorruptStoreError, match="damaged manifest; restore the file"):
        Stored.open(tmp_path / "s.zarr")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"body": {}}', "null", "\xff", '{"sha256": "", "body": 3}', "1e999"]
)
def test_a_manifest_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptStoreError, match=r"manifest\.json"):
        Manifest.load(tmp_path)


def test_types_and_chunks_grow_with_the_graph() -> None:
    assert id_dtype(2**32 - 1) == np.uint32
    assert id_dtype(2**32) == np.uint64
    assert internal_dtype(2**31 - 1) == np.int32
    assert internal_dtype(2**31) == np.int64
    assert [shards_for(arcs) for arcs in (0, 1 << 27, (1 << 27) + 1, 1 << 30)] == [1, 1, 2, 8]
    assert chunk_length(0, 4) == 1
    assert chunk_length(10, 4) == 10
    assert chunk_length(1 << 40, 8) * 8 == CHUNK_BYTES


def test_a_cursor_keeps_one_chunk() -> None:
    given: list[weakref.ref[np.ndarray]] = []

    def chunk(spec: ArraySpec, index: int) -> np.ndarray:
        assert all(earlier() is None for earlier in given)
        data = np.arange(*spec.bounds(index))
        given.append(weakref.ref(data))
        return data

    cursor = Cursor(chunk, ArraySpec("a", 30, np.dtype(np.int64), chunk_rows=8))
    parts = [cursor.read(start, start + 5) for start in range(0, 30, 5)]
    assert np.concatenate(parts).tolist() == list(range(30))
    assert len(given) == 4
    assert cursor.read(7, 7).tolist() == []


def test_a_short_read_aside_leaves_a_core_to_the_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path / "g", {"a": np.arange(9)})
    opened, asked = Stored.open(tmp_path / "g"), list[int]()
    monkeypatch.setattr(stored, "cores", lambda: 3)
    monkeypatch.setattr(stored, "in_ranges", lambda threads, *_, **__: asked.append(threads))
    opened.read("a")
    alongside(lambda: opened.read("a"), list)
    monkeypatch.setattr(stored, "_SHORT_BYTES", 9 * 8)
    alongside(lambda: opened.read("a"), list)
    assert asked == [3, 2, 3]
