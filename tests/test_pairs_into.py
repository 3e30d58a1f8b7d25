"""Distances and levels from many sources into an array of who asks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.threads import cores
from ooc_graph.types import NoProgress
from tests import small_pairs
from tests.said import Said
from tests.small_pairs import edges

graph, small_chunks = small_pairs.graph, small_pairs.small_chunks
SOURCES, TARGETS = [598, 3, 199], [605, 17, 3, 598]


@pytest.mark.parametrize("find", [og.johnson, og.multi_source_bfs])
@pytest.mark.parametrize("targets", [None, TARGETS])
@pytest.mark.usefixtures("small_chunks")
def test_the_array_is_the_answer(graph: og.Graph, find: Any, targets: list[int] | None) -> None:
    """All sources, in several tasks, and some."""
    for sources in (None, SOURCES):
        wanted = find(graph, sources, targets=targets)
        matrix = wanted.read(wanted.measure)
        array = np.full_like(matrix, 7)
        found = find(graph, sources, targets=targets, into=array)
        assert found.read(found.measure) is array
        assert array.tobytes() == matrix.tobytes()
        assert found.source.tolist() == wanted.source.tolist()
        assert found.vertex.tolist() == wanted.vertex.tolist()


def test_the_array_takes_no_memory_besides(tmp_path: Path) -> None:
    u, v = np.random.default_rng(8).integers(0, 3000, (2, 6000))
    graph = og.build((u, v, np.ones(6000, np.float32)), tmp_path / "g.zarr", directed=True)
    answer_bytes = 4 * graph.vertices**2
    with pytest.raises(MemoryBudgetError, match="give out="):
        og.johnson(graph, device="cpu", memory_limit=answer_bytes)
    array = np.empty((graph.vertices, graph.vertices), np.float32)
    og.johnson(graph, device="cpu", memory_limit=answer_bytes, into=array)
    assert array.tobytes() == og.johnson(graph, device="cpu").distance.tobytes()


@pytest.mark.parametrize(("limit", "how"), [("16MiB", "one by one"), ("20MiB", "in batches")])
def test_sources_out_of_the_store_go_there_too(tmp_path: Path, limit: str, how: str) -> None:
    u, v = np.random.default_rng(8).integers(0, 30_000, (2, 300_000))
    graph = og.build((u, v, np.ones(len(u), np.float32)), tmp_path / "g.zarr", directed=True)
    sources = graph.original_ids()[:20]
    array = np.empty((20, graph.vertices), np.float32)
    said = Said()
    og.johnson(graph, sources, device="cpu", memory_limit=limit, into=array, progress=said)
    assert "apsp leaves arcs in the store" in said.notes[0]
    assert how in said.notes[0]
    for row, source in zip(array, sources.tolist(), strict=True):
        assert row.tobytes() == og.sssp(graph, source, device="cpu").distance.tobytes()


def test_workers_bring_theirs(tmp_path: Path) -> None:
    u, v, weight = edges()
    graph = og.build((u, v, weight), tmp_path / "g.zarr", directed=True)
    wanted = og.johnson(graph).distance
    array = np.empty_like(wanted)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        assert og.johnson(graph, into=array, client=client).distance is array
    assert array.tobytes() == wanted.tobytes()


def test_a_file_in_memory_is_an_array(graph: og.Graph, tmp_path: Path) -> None:
    wanted = og.johnson(graph, SOURCES).distance
    array = np.memmap(tmp_path / "d.bin", np.int64, "w+", shape=wanted.shape)
    assert og.johnson(graph, SOURCES, into=array).distance is array
    array.flush()
    assert (tmp_path / "d.bin").read_bytes() == wanted.tobytes()


class Steps(NoProgress):
    """Keeps what is said of sources that are done, and by how many threads."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.threads: set[int] = set()

    def advance(self, amount: float) -> None:
        if amount:
            self.steps.append(amount)
            self.threads.add(threading.get_ident())


def test_sources_are_told_of_as_they_are_found() -> None:
    """In one task, by the threads that search; those without arcs at the end."""
    u, v = np.random.default_rng(8).integers(0, 900, (2, 4000))
    graph = og.from_edges(u, v, np.ones(4000, np.float32), directed=True, vertices=1000)
    lonely = int((graph.internal_of() < 0).sum())
    assert lonely >= 100
    steps = Steps()
    og.johnson(graph, device="cpu", progress=steps)
    assert sum(steps.steps) == 1000
    assert steps.steps[-1] == lonely
    assert len(steps.steps) > 8
    assert max(steps.steps[:-1]) <= 64
    assert threading.get_ident() in steps.threads
    assert cores() == 1 or len(steps.threads) > 1


def bad(kind: str, shape: tuple[int, int]) -> Any:
    """An array that distances cannot go to."""
    width = shape[1]
    if kind == "read-only":
        array = np.empty(shape, np.int64)
        array.flags.writeable = False
        return array
    return {
        "dtype": np.empty(shape, np.float64),
        "shape": np.empty((shape[0], shape[1] - 1), np.int64),
        "matrix": np.empty(shape, np.int64).view(np.matrix),
        "unaligned": np.empty(8 * width * shape[0] + 1, np.int8)[1:].view(np.int64).reshape(shape),
        "order": np.empty(shape, np.int64, order="F"),
        "list": [[0] * shape[1]] * shape[0],
    }[kind]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("dtype", r"int64 \(3, 80\), not float64 \(3, 80\)"),
        ("shape", r"int64 \(3, 80\), not int64 \(3, 79\)"),
        ("order", "C-contiguous"),
        ("read-only", "written to"),
        ("list", "not list"),
        ("matrix", "not matrix"),
        ("unaligned", "aligned"),
    ],
)
def test_arrays_that_will_not_do_are_refused(graph: og.Graph, kind: str, said: str) -> None:
    width = graph.vertices
    with pytest.raises(
        UsageError, match=said.replace("80", str(width)).replace("79", str(width - 1))
    ):
        og.johnson(graph, SOURCES, into=bad(kind, (3, width)))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"parents": True}, "parents"), ({"reduce": "sum"}, "reduction"), ({"out": "d.zarr"}, "out=")],
)
def test_other_answers_have_no_room_there(graph: og.Graph, options: Any, said: str) -> None:
    array = np.empty((3, graph.vertices), np.int64)
    with pytest.raises(UsageError, match=said):
        og.johnson(graph, SOURCES, into=array, **options)
    assert not Path("d.zarr").exists()
