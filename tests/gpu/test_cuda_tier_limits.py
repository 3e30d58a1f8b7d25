"""Searches on a device that write nothing to the graph, and within a tenth of its bytes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from tests.command_line import listing
from tests.gpu import stores
from tests.gpu.searching import search
from tests.gpu.test_cuda_tiers import LITTLE
from tests.said import Said
from tests.unit.test_tier_limits import dense, read_only, state

pytestmark = pytest.mark.usefixtures("released")
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
# Of a neighbour, and of its weight.
ARC_BYTES = {"bfs": 4, "sssp": 8}
PINNED, STORED = "bytes of rows in pinned host memory", "bytes of the store for"


@pytest.fixture(scope="module")
def kronecker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.kronecker(tmp_path_factory, 15, shards=4).path


@pytest.fixture(scope="module")
def nearly_complete(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """The state of its vertices is far below a tenth of its arcs."""
    return dense(tmp_path_factory.mktemp("dense") / "g.zarr", 3400)


def limits(graph: og.Graph, kernel: str, tier: str) -> dict[str, int]:
    """Budgets with which a tier is taken."""
    if tier == PINNED:
        return {"device_memory": cuda_memory.cuda_bytes(graph, kernel) - 1}
    least = cuda_disk.least_device_bytes(graph, kernel)
    return {"device_memory": least + 8 * graph.rows, "host_memory": 0}


def written(out: Path) -> dict[str, str]:
    """What stands in a result, beside when and how it was made."""
    return {name: one for name, one in listing(out).items() if name != "run.json"}


def note_of_search(said: Said) -> str:
    """Where a search had its arcs, to which nothing was refused."""
    assert not any("refused" in note for note in said.notes), said.notes
    (note,) = (note for note in said.notes if " had " in note)
    return note


@pytest.mark.parametrize("tier", [PINNED, STORED], ids=["pinned", "in the store"])
@KERNELS
def test_nothing_is_written_to_the_graph(
    kernel: str, tier: str, kronecker: Path, tmp_path: Path
) -> None:
    """Bytes and times are compared, since permissions are nothing to root."""
    graph, said = og.open(kronecker), Said()
    source = int(graph.original_of()[7])
    outs = [tmp_path / f"{device}.zarr" for device in ("cpu", "cuda")]
    search(kernel)(graph, source, out=outs[0], device="cpu")
    with read_only(kronecker):
        before, content = state(kronecker), listing(kronecker)
        graph = og.open(kronecker)
        within = limits(graph, kernel, tier)
        search(kernel)(graph, source, out=outs[1], device="cuda", progress=said, **within)
        engine_cache.release()
        assert state(kronecker) == before
        assert listing(kronecker) == content
    assert os.access(kronecker, os.W_OK)
    note = note_of_search(said)
    assert tier in note
    assert tier == PINNED or re.search(r"for [1-9][\d,]* rows", note), note
    assert written(outs[1]) == written(outs[0])


# No row is much longer than another here: pulling does not pay. SSSP whose rows are pinned has no
# arcs on the device.
@pytest.mark.parametrize(
    ("kernel", "host", "tier", "pins"),
    [
        pytest.param("bfs", None, PINNED, True, id="bfs, pinned"),
        pytest.param("bfs", 0, STORED, False, id="bfs, in the store"),
        pytest.param("sssp", None, PINNED, True, id="sssp, pinned"),
        pytest.param("sssp", 0.5, STORED, True, id="sssp, in the store"),
        pytest.param("sssp", 0, STORED, False, id="sssp, nothing pinned"),
    ],
)
def test_a_tenth_of_the_graph_is_enough(
    kernel: str,
    host: float | None,
    tier: str,
    pins: bool,
    nearly_complete: og.Graph,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the bytes of the rows that the kernel reads: the device has no more for it than that.

    The plan's fixed reserve is made small, and nothing else of it: a tenth of a graph of this size
    is less than the reserve is, and of a graph for which it is not would take minutes to build.
    """
    cupy, graph = cuda_modules.cuda(), nearly_complete
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    rows_bytes = graph.stored_arcs * ARC_BYTES[kernel]
    budget = rows_bytes // 10
    wanted: dict[str, Any] = {"device": "cuda", "device_memory": budget}
    if host is not None:
        wanted["host_memory"] = int(host * rows_bytes)
    # What the first one compiles and measures the others need not.
    search(kernel)(graph, int(graph.original_of()[0]), **wanted)
    for place in (7, graph.rows - 1):
        engine_cache.release()
        source, said, pool = int(graph.original_of()[place]), Said(), cupy.cuda.MemoryPool()
        pool.set_limit(size=budget)
        right = search(kernel)(graph, source, device="cpu")
        with cupy.cuda.using_allocator(pool.malloc):
            found = search(kernel)(graph, source, progress=said, **wanted)
            assert 0 < pool.total_bytes() <= budget
            engine_cache.release()
        for name in right.names:
            column = np.asarray(found.read(name))
            assert column.tobytes() == right.read(name).tobytes(), name
        note = note_of_search(said)
        assert tier in note
        assert "it went on within" not in note
        assert ("and 0 bytes of pinned memory" in note) == (not pins), note
        share = re.search(r"([\d.]+) % of the arcs", note)
        assert share is not None
        has_some = (kernel, tier) != ("sssp", PINNED)
        assert (float(share[1]) > 0) == has_some
        assert float(share[1]) < 10
