"""Open a finished store: check names, sizes and chunk crcs, read arrays, verify everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.errors import CorruptStoreError, NotAStoreError, StoreReplacedError
from ooc_graph.layout.chunks import REPAIR, read_chunk
from ooc_graph.layout.declared import (
    METADATA,
    check_quickly,
    has_digest,
    refuse_links,
    small_file,
    spec_of,
    what,
)
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.manifest import Manifest, load_same, replaced
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import ATTRIBUTES_KEY, CRC_BYTES, MANIFEST, sidecar_path
from ooc_graph.layout.whole_file import PARTIAL
from ooc_graph.ranges import go_on, in_ranges, is_aside
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray

_SHORT_BYTES = 256 << 20
"""About what a thread reads while numba is imported."""
_OPENINGS = 20
"""Most times that a store is opened which is replaced meanwhile."""


@dataclass(frozen=True)
class Stored:
    """A finished store whose names, sizes and chunk crcs have been found as the manifest says."""

    path: Path
    manifest: Manifest
    attributes: dict[str, Any]
    # What the manifest's metadata say, by array.
    _specs: dict[str, ArraySpec] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, path: str | Path, kind: str | None = None, identity: str | None = None) -> Stored:
        """Open a store of a kind (``graph`` or ``result``).

        ``identity`` is that of the store which was opened before; None: of any. StoreReplacedError
        says that there is another, or a new one again and again; CorruptStoreError that a file is
        missing, or its size, its small content or its stored crc32c is wrong.
        """
        # Workers may stand in another folder.
        folder = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they are
        for _ in range(_OPENINGS):
            manifest = Manifest.load(folder) if identity is None else load_same(folder, identity)
            if kind is not None and manifest.kind != kind:
                raise NotAStoreError(f"{folder}: holds a {manifest.kind}, a {kind} is needed here")
            # The manifest of one store, and files of the next: the next is opened.
            with suppress(StoreReplacedError), manifest.reading(folder):
                refuse_links(folder, manifest)
                for entry in manifest.files.values():
                    check_quickly(folder, entry)
                attributes = _document(folder, manifest, "zarr.json")["attributes"]
                own = attributes.get(ATTRIBUTES_KEY)
                if not isinstance(own, dict):
                    raise CorruptStoreError(f"{folder}/zarr.json: has not our attributes; {REPAIR}")
                return cls(folder, manifest, own)
        raise replaced(folder)

    @property
    def identity(self) -> str:
        """SHA-256 over the manifest."""
        return self.manifest.sha256

    @property
    def content_sha256(self) -> str:
        """The same: the manifest has the hashes of all files."""
        return self.manifest.sha256

    def __contains__(self, array: str) -> bool:
        return f"{array}/zarr.json" in self.manifest.files

    def spec(self, array: str) -> ArraySpec:
        """Shape and dtype of an array, read again and checked against the manifest."""
        with self.reading():
            content = small_file(self.path, self.manifest, f"{array}/zarr.json", METADATA)
        if array not in self._specs:
            self._specs[array] = spec_of(self.path, self.manifest, array, content)
        return self._specs[array]

    def arrays(self) -> Iterator[ArraySpec]:
        """All arrays of the store."""
        for name in self.manifest.files:
            folder, _, last = name.rpartition("/")
            if last == "zarr.json" and folder and self._document(name).get("node_type") == "array":
                yield self.spec(folder)

    def reading(self) -> AbstractContextManager[None]:
        """Context of reads of the store's files; see `Manifest.reading`."""
        return self.manifest.reading(self.path)

    def _document(self, name: str) -> dict[str, Any]:
        with self.reading():
            return _document(self.path, self.manifest, name)

    def chunk(self, spec: ArraySpec, index: int, out: AnyArray | None = None) -> AnyArray:
        """Elements, or rows, of one chunk, checked against the manifest."""
        go_on()
        start, stop = spec.bounds(index)
        data = np.empty(spec.shape(stop - start), spec.dtype) if out is None else out
        entry = self.manifest.files[spec.chunk_path(index)]
        with self.reading():
            read_chunk(self.path, spec, index, data, entry.crc32c or 0)
        return data

    def sidecar(self, array: str) -> AnyArray:
        """crc32c of each 64 KiB of each chunk of an array: uint32, checked against the manifest."""
        name = sidecar_path(array)
        with self.reading():
            content = small_file(self.path, self.manifest, name, "the file is damaged")
            if len(content) % CRC_BYTES:
                raise CorruptStoreError(f"{self.path / name}: holds no crc32c; {REPAIR}")
        return np.frombuffer(content, "<u4")

    def read(self, array: str) -> AnyArray:
        """Whole array in host memory, chunks read into place by threads, and checked."""
        spec = self.spec(array)
        data = np.empty(spec.shape(spec.length), spec.dtype)

        def read(first: int, end: int) -> None:
            for index in range(first, end):
                self.chunk(spec, index, data[slice(*spec.bounds(index))])

        # The thread that this one works beside has a core to itself.
        threads = cores() - (is_aside() and data.nbytes < _SHORT_BYTES)
        in_ranges(threads, spec.chunks, read, most=1)
        return data

    def blocks(self, array: str) -> Iterator[AnyArray]:
        """The array chunk by chunk, in order."""
        spec = self.spec(array)
        for index in range(spec.chunks):
            yield self.chunk(spec, index)

    def verify(self, advance: Callable[[int], None] = lambda _: None) -> None:
        """Read every file and compare its hash with the manifest's.

        ``advance`` is called with the number of bytes read. CorruptStoreError names the first file
        (and chunk) that differs, or a file the manifest does not name.
        """
        with self.reading():
            for entry in self.manifest.files.values():
                check_quickly(self.path, entry)
                path = self.path / entry.path
                if not has_digest(path, entry.digest, advance):
                    raise CorruptStoreError(
                        f"{path}: {what(entry.path)} differs from what the manifest says "
                        f"(its hash); {REPAIR}"
                    )
            self._refuse_strangers()

    def _refuse_strangers(self) -> None:
        known = {*self.manifest.files, MANIFEST}
        for folder, _, files in os.walk(self.path):
            for name in files:
                found = (Path(folder) / name).relative_to(self.path).as_posix()
                # A worker that was taken for lost may have left a file that it had not completed.
                if found not in known and PARTIAL not in name:
                    raise CorruptStoreError(
                        f"{self.path / found}: not a file of this store (the manifest does not "
                        "name it); remove it"
                    )


class Cursor:
    """Reads an array from front to back and keeps one chunk; ``chunk`` is as `Stored.chunk`."""

    def __init__(self, chunk: Callable[[ArraySpec, int], AnyArray], spec: ArraySpec) -> None:
        self.spec, self._read = spec, chunk
        self._index, self._chunk = -1, np.empty(spec.shape(0), spec.dtype)

    def stop(self, first: int) -> int:
        """End of the chunk that element ``first`` is in."""
        return self.spec.bounds(first // self.spec.chunk)[1]

    def take(self, first: int, stop: int) -> AnyArray:
        """Elements of one chunk; no copy."""
        index = first // self.spec.chunk
        if index != self._index:
            # The old chunk goes before the next one comes.
            self._index, self._chunk = -1, self._chunk[:0].copy()
            self._chunk = self._read(self.spec, index)
            self._index = index
        begin, _ = self.spec.bounds(index)
        return self._chunk[first - begin : stop - begin]

    def read(self, start: int, stop: int) -> AnyArray:
        """Elements of any range."""
        found, at = np.empty(self.spec.shape(stop - start), self.spec.dtype), start
        while at < stop:
            end = min(stop, self.stop(at))
            found[at - start : end - start] = self.take(at, end)
            at = end
        return found


def _document(store: Path, manifest: Manifest, name: str) -> dict[str, Any]:
    content = small_file(store, manifest, name, METADATA)
    try:
        document = parsed(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        raise CorruptStoreError(f"{store / name}: {METADATA}; {REPAIR}")
    return document
