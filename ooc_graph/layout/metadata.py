"""Zarr v3 metadata documents.

They are written here, not by the Zarr library, because their bytes are hashed: they must not
depend on the library's version. A test opens every kind of them with the library.
Source: Zarr core specification version 3, https://zarr-specs.readthedocs.io
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.layout import names
from ooc_graph.layout.json_text import indented
from ooc_graph.layout.names import ATTRIBUTES_KEY, chunk_length
from ooc_graph.layout.packing import Packing

CODECS: list[dict[str, Any]] = [
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
]


@dataclass(frozen=True)
class ArraySpec:
    """An array of a store: one-dimensional, or rows of one ``width`` in chunks of whole rows.

    ``length`` is in elements, or rows; ``width`` is None if the array is one-dimensional.
    ``chunk_rows`` is for arrays that are cut at the same rows as another; None: as many as fit
    `CHUNK_BYTES`. ``packing`` is in how many bits the numbers of a one-dimensional array are
    stored; all else describes the numbers, whatever they are stored in.
    """

    path: str
    length: int
    dtype: np.dtype[Any]
    width: int | None = None
    chunk_rows: int | None = None
    packing: Packing | None = None

    @property
    def item_bytes(self) -> int:
        """Bytes of an element, or of a row."""
        return self.dtype.itemsize * (1 if self.width is None else self.width)

    def shape(self, length: int) -> tuple[int, ...]:
        """Shape of so many elements, or rows."""
        return (length,) if self.width is None else (length, self.width)

    @property
    def chunk(self) -> int:
        """Elements, or rows, a chunk."""
        return self.chunk_rows or chunk_length(self.length, self.item_bytes)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.length // self.chunk)

    def chunk_path(self, index: int) -> str:
        """Path of a chunk file inside the store."""
        return f"{self.path}/c/{index}" + ("" if self.width is None else "/0")

    def bounds(self, index: int) -> tuple[int, int]:
        """Elements, or rows, ``start, stop`` that chunk ``index`` holds."""
        return index * self.chunk, min((index + 1) * self.chunk, self.length)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk as it is stored, without its crc32c."""
        if self.packing is None:
            return self.chunk * self.item_bytes
        return self.packing.bytes_of(self.chunk, self.dtype)

    @property
    def block_bytes(self) -> int:
        """Bytes of a chunk that are checked together: 64 KiB, or what such are packed into."""
        if self.packing is None:
            return names.SIDECAR_BYTES
        return self.packing.block_bytes(self.dtype)

    def document(self) -> bytes:
        """``zarr.json`` of the array."""
        if self.packing is None:
            dtype, attributes = self.dtype.name, dict[str, Any]()
            shape, chunk = self.shape(self.length), self.shape(self.chunk)
        else:
            dtype, chunk = "uint8", (self.chunk_bytes,)
            shape = (self.chunks * self.chunk_bytes,)
            packed = {"dtype": self.dtype.name, "length": self.length, **asdict(self.packing)}
            attributes = {ATTRIBUTES_KEY: {"packed": packed}}
        return _encode(
            {
                "zarr_format": 3,
                "node_type": "array",
                "shape": list(shape),
                "data_type": dtype,
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": list(chunk)},
                },
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": 0,
                "codecs": CODECS,
                "attributes": attributes,
                "storage_transformers": [],
            }
        )

    @classmethod
    def from_document(cls, path: str, document: Mapping[str, Any]) -> ArraySpec:
        """Read back what ``document`` wrote; ValueError if the array is stored in any other way."""
        length, *widths = map(int, document["shape"])
        if packed := document["attributes"].get(ATTRIBUTES_KEY, {}).get("packed"):
            packing = Packing(int(packed["bits"]), int(packed["base"]))
            spec = cls(path, int(packed["length"]), np.dtype(packed["dtype"]), packing=packing)
            return spec._checked(document)
        width = widths[0] if widths else None
        spec = cls(path, length, np.dtype(document["data_type"]), width)
        rows = int(document["chunk_grid"]["configuration"]["chunk_shape"][0])
        if widths and rows != spec.chunk:
            spec = replace(spec, chunk_rows=rows)
        return spec._checked(document)

    def _checked(self, document: Mapping[str, Any]) -> ArraySpec:
        is_array = self.dtype.kind in "iuf" and self.length >= 0 and (self.width or 1) > 0
        if not is_array or json.loads(self.document()) != document:
            raise ValueError(f"{self.path}: not stored the way this package stores arrays")
        return self


def group_document(attributes: Mapping[str, Any] | None = None) -> bytes:
    """``zarr.json`` of a group; the attributes stand under one key."""
    wrapped = {ATTRIBUTES_KEY: attributes} if attributes is not None else {}
    return _encode({"zarr_format": 3, "node_type": "group", "attributes": wrapped})


def parent_groups(path: str) -> list[str]:
    """Groups above an array, outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _encode(document: Mapping[str, Any]) -> bytes:
    return f"{indented(document)}\n".encode()
