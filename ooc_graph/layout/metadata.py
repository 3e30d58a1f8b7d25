"""Zarr v3 metadata documents.

They are written here, not by the Zarr library, because their bytes are hashed: they must not
depend on the library's version. A test opens every kind of them with the library.
Source: Zarr core specification version 3, https://zarr-specs.readthedocs.io
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.layout.names import ATTRIBUTES_KEY, chunk_length

CODECS: list[dict[str, Any]] = [
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
]


@dataclass(frozen=True)
class ArraySpec:
    """An array of a store: one-dimensional, or rows of one width in chunks of whole rows.

    Parameters
    ----------
    path
        Name inside the store, with slashes.
    length
        Number of elements, or of rows.
    dtype
        One of Zarr's plain numeric types.
    width
        Elements of a row, at least 1; None where the array is one-dimensional.
    chunk_rows
        Rows a chunk, for arrays that are to be cut at the same rows as another; None: as many as
        fit `CHUNK_BYTES`.
    """

    path: str
    length: int
    dtype: np.dtype[Any]
    width: int | None = None
    chunk_rows: int | None = None

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

    def document(self) -> bytes:
        """``zarr.json`` of the array."""
        return _encode(
            {
                "zarr_format": 3,
                "node_type": "array",
                "shape": list(self.shape(self.length)),
                "data_type": self.dtype.name,
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": list(self.shape(self.chunk))},
                },
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": 0,
                "codecs": CODECS,
                "attributes": {},
                "storage_transformers": [],
            }
        )

    @classmethod
    def from_document(cls, path: str, document: Mapping[str, Any]) -> ArraySpec:
        """Read back what ``document`` wrote.

        Raises
        ------
        ValueError
            If the array is stored in any other way than this package stores arrays.
        """
        length, *widths = map(int, document["shape"])
        spec = cls(path, length, np.dtype(document["data_type"]), *widths[:1])
        rows = int(document["chunk_grid"]["configuration"]["chunk_shape"][0])
        if widths and rows != spec.chunk:
            spec = replace(spec, chunk_rows=rows)
        if json.loads(spec.document()) != document:
            raise ValueError(f"{path}: not stored the way this package stores arrays")
        return spec


def group_document(attributes: Mapping[str, Any] | None = None) -> bytes:
    """``zarr.json`` of a group; the attributes stand under one key."""
    wrapped = {ATTRIBUTES_KEY: attributes} if attributes is not None else {}
    return _encode({"zarr_format": 3, "node_type": "group", "attributes": wrapped})


def parent_groups(path: str) -> list[str]:
    """Groups above an array, outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _encode(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
