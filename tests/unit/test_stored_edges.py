"""The rows of a graph as edges: memory that reading takes, and what is read once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.stored_edges import StoredEdges
from ooc_graph.types import AnyArray
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.unit.test_build_oracle import small_steps

ROWS, ARCS, THREADS = 1 << 12, 1 << 18, 2
CHUNK_BYTES = 1 << 18


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    """Columns have several chunks."""
    with small_steps(chunk=CHUNK_BYTES):
        yield


def built(path: Path, shards: int) -> og.Graph:
    rng = np.random.default_rng(3)
    ends = rng.integers(0, ROWS, (2, ARCS // 2))
    return og.build(
        (*ends, rng.random(ends.shape[1])), path, shards=shards, device="cpu", directed=True
    )


def counted(source: StoredEdges) -> int:
    """Tuples that threads read, each its share of the units."""
    units = source.units(1 << 14)

    def read(number: int) -> int:
        mine = units[number::THREADS]
        return sum(len(block) for unit in mine for block in source.read(unit, 1 << 10))

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(read, range(THREADS)))


def memory_of_reading(path: Path, most: int) -> int:
    with small_steps(chunk=CHUNK_BYTES):
        graph = og.open(path)
        return traced_peak(lambda: counted(StoredEdges(graph, weighted=True)), most)


@pytest.mark.parametrize("shards", [1, 2])
def test_memory_is_what_is_said(shards: int, tmp_path: Path) -> None:
    graph = built(tmp_path / "g.zarr", shards)
    most = StoredEdges(graph, weighted=True).memory_bytes(THREADS) + (1 << 19)
    assert in_own_process(memory_of_reading, graph.path, most) <= most


def test_threads_share_ids_and_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, read = built(tmp_path / "g.zarr", 2), list[str]()
    whole = Stored.read

    def noted(stored: Stored, name: str) -> AnyArray:
        read.append(name)
        return whole(stored, name)

    monkeypatch.setattr(Stored, "read", noted)
    source = StoredEdges(graph, weighted=True)
    assert len(source.units(1 << 14)) > 2 * THREADS
    offsets = [name for name in read if name.endswith("offsets")]
    assert (read.count("original_of"), len(offsets)) == (1, 2)
    assert counted(source) == graph.stored_arcs // 2
    assert read == ["original_of", *offsets]
