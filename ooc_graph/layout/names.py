"""Names, dtypes and chunk lengths of the arrays in a store, and the format's version."""

from __future__ import annotations

from typing import Any

import numpy as np

FORMAT_VERSION = 2
READ_VERSIONS = range(1, FORMAT_VERSION + 1)
ATTRIBUTES_KEY = "ooc_graph"

WIDE_VERTICES = 1 << 32
"""Internal ids take 64 bits in graphs of so many rows and more, else 32."""

CHUNK_BYTES = 16 << 20
CRC_BYTES = 4
SIDECAR_BYTES = 64 << 10

MANIFEST = "manifest.json"
INTEGRITY = "integrity"

ASIDE = ".partial-replaced-"
"""Between a store's name and a random one: an old store that is being replaced by two renames."""
REMOVED = ".partial-removed-"
"""Between a store's name and a random one: what is being removed."""

ORIGINAL_OF = "original_of"
INTERNAL_OF = "internal_of"
ORIGINALS = "originals"
TUPLES = "tuples"

OUT, IN = "out", "in"
HUB, LIGHT = "hub", "light"

VERTEX, PARENT, LEVEL, DISTANCE = "vertex", "parent", "level", "distance"
COMPONENT, NEAREST, PAGERANK = "component", "nearest", "pagerank"
SOURCE, REACHED = "source", "reached"
APSP, MULTI_SOURCE_BFS = "apsp", "multi_source_bfs"
WEIGHTED_PAGERANK = "weighted_pagerank"
FROM_ONE = ("bfs", "sssp")
"""Kernels that search from one source."""
ORDER_OF = {
    "bfs": HUB,
    "sssp": LIGHT,
    "components": HUB,
    APSP: LIGHT,
    MULTI_SOURCE_BFS: HUB,
    PAGERANK: HUB,
    WEIGHTED_PAGERANK: LIGHT,
}
"""Order of the rows that a kernel searches."""


def rows_path(shard: int, side: str, order: str) -> str:
    """Group that holds one shard's rows of one side in one order."""
    return f"shards/{shard:05d}/{side}/{order}"


def sidecar_path(array: str) -> str:
    """File with the crc32c (uint32, little endian) of each 64 KiB of each chunk of an array."""
    return f"{INTEGRITY}/{array.replace('/', '.')}.crc32c"


def chunk_length(length: int, itemsize: int) -> int:
    """Elements a chunk: ``CHUNK_BYTES`` worth, or the whole of a shorter array (at least 1)."""
    return max(1, min(length, CHUNK_BYTES // itemsize))


def id_dtype(vertices: int) -> np.dtype[Any]:
    """Type of neighbours: 32 bits below `WIDE_VERTICES` vertices."""
    return np.dtype(np.uint32 if vertices < WIDE_VERTICES else np.uint64)


def internal_dtype(vertices: int) -> np.dtype[Any]:
    """Type of ``internal_of``, which also holds -1."""
    return np.dtype(np.int32 if vertices < 1 << 31 else np.int64)


def shards_for(arcs: int) -> int:
    """Number of virtual shards: a power of two, at most about 2**27 arcs each."""
    shards = 1
    while arcs > shards << 27:
        shards *= 2
    return shards
