"""Within a sixteenth of the arcs' bytes, and from a store that nobody may write to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.graph500 import on_host
from ooc_graph.graph500.run import BatchTask
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu.plan import least_bytes
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.many import tiers as many_tiers
from tests.command_line import listing
from tests.said import Said

KERNELS = ("bfs", "sssp")
KNOWN_SEED = 11


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


def dense(path: Path, vertices: int) -> Graph:
    """Nearly all pairs: the state of the vertices is small beside the arcs."""
    random = np.random.default_rng(KNOWN_SEED)
    u, v = np.triu_indices(vertices, 1)
    kept = random.random(len(u)) < 0.95
    # No way of two arcs is lighter than one arc, which may stand anywhere in a row.
    weights = 0.9 + 0.1 * random.random(int(kept.sum()), dtype=np.float32)
    return og.build((u[kept], v[kept], weights), path, directed=False)


def arc_bytes(graph: Graph, kernels: tuple[str, ...]) -> int:
    """Bytes of all arcs in the store, in the order of rows of each kernel."""
    names = ("neighbors", "weights")
    groups = [graph.path / f"shards/00000/out/{ORDER_OF[kernel]}" for kernel in kernels]
    columns = [group / name for group in groups for name in names if (group / name).is_dir()]
    return sum(path.stat().st_size for column in columns for path in column.glob("c/*"))


@pytest.mark.parametrize(
    ("vertices", "of_its_own"),
    [
        pytest.param(3400, False, id="of the store's arcs"),
        pytest.param(6000, True, id="of the kernel's arcs", marks=pytest.mark.slow),
    ],
)
def test_a_sixteenth_of_the_arcs_bytes_is_enough(
    vertices: int, of_its_own: bool, tmp_path: Path
) -> None:
    graph = dense(tmp_path / "g.zarr", vertices)
    source = int(graph.original_of()[7])
    for kernel in KERNELS:
        limit = arc_bytes(graph, (kernel,) if of_its_own else KERNELS) // 16
        facts = cpu_disk.known_facts(graph, kernel)
        assert limit < facts.arcs * facts.arc_bytes
        outs = [tmp_path / f"{kernel}-{name}.zarr" for name in ("all", "capped")]
        search = getattr(og, kernel)
        search(graph, source, out=outs[0], device="cpu")
        engine_cache.release()
        said = Said()
        search(graph, source, out=outs[1], device="cpu", memory_limit=limit, progress=said)
        (line,) = (note for note in said.notes if f"{kernel} held " in note)
        share, read = re.search(r"held ([\d.]+) % .* read ([\d,]+) bytes", line).groups()
        assert float(share) < 100 / 16
        # The first arcs of rows so long are all that BFS looks at.
        assert kernel == "bfs" or int(read.replace(",", "")) > 0
        wanted, found = (listing(out) for out in outs)
        assert {name: one for name, one in found.items() if name != "run.json"} == {
            name: one for name, one in wanted.items() if name != "run.json"
        }


def test_below_the_state_of_the_vertices_the_least_is_told(tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(15, edge_factor=64), tmp_path / "g.zarr")
    source = int(graph.original_of()[7])
    for kernel in KERNELS:
        limit = 16 * graph.rows
        least = cpu_disk.least_within(graph, kernel)
        with pytest.raises(og.errors.MemoryBudgetError, match=f"at least {least:,} bytes"):
            getattr(og, kernel)(
                graph, source, out=tmp_path / "r.zarr", device="cpu", memory_limit=limit
            )
    assert not (tmp_path / "r.zarr").exists()


@pytest.fixture(scope="module")
def kronecker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kronecker") / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path)
    return path


def state(store: Path) -> dict[str, tuple[int, int, int]]:
    """Of every file and folder: when it was written and changed, and its permissions."""
    found = {}
    for path in (store, *store.rglob("*")):
        facts = path.stat()
        found[str(path)] = facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode
    return found


@contextmanager
def read_only(store: Path) -> Iterator[None]:
    """Without the permission to write, of files and of folders."""
    paths = [store, *store.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def search_once(kernel: str, graph: Graph, out: Path) -> Said:
    limit, said = cpu_disk.least_within(graph, kernel), Said()
    source = int(graph.original_of()[7])
    getattr(og, kernel)(graph, source, out=out, device="cpu", memory_limit=limit, progress=said)
    return said


def search_many(graph: Graph, out: Path) -> Said:
    method = many_tiers.ONE_BY_ONE
    limit, said = least_bytes(many_tiers.known_facts(graph, "multi_source_bfs", method)), Said()
    og.multi_source_bfs(
        graph,
        graph.original_of()[:3],
        targets=graph.original_of()[:5],
        out=out,
        device="cpu",
        memory_limit=limit + (8 << 20),
        progress=said,
    )
    return said


def search_graph500(graph: Graph, _: Path) -> Said:
    """The searches of Graph500 alone: its graph is built by the run."""
    limit, said = cpu_disk.least_within(graph, "bfs"), Said()
    source = og.Kronecker(15, edge_factor=64)
    strategy = cpu_disk.OnDisk()
    reserved = Reservation(strategy.name, limit)
    whom = str(graph.path), graph.identity, Request("bfs"), -1, None
    task = BatchTask(SearchTask(*whom, strategy, reserved), source, validate=False)
    found = on_host.search_batch(task, graph.original_of()[:2])
    said.note(f"read {sum(one.io_stats.rows for one in found)} rows")
    return said


SEARCHES: dict[str, Callable[[Graph, Path], Any]] = {
    "bfs": lambda graph, out: search_once("bfs", graph, out),
    "sssp": lambda graph, out: search_once("sssp", graph, out),
    "many sources": search_many,
    "graph500": search_graph500,
}


@pytest.mark.parametrize("search", SEARCHES)
def test_nothing_is_written_to_the_graph(search: str, kronecker: Path, tmp_path: Path) -> None:
    with read_only(kronecker):
        before, content = state(kronecker), listing(kronecker)
        said = SEARCHES[search](og.open(kronecker), tmp_path / "r.zarr")
        assert state(kronecker) == before
        assert listing(kronecker) == content
    assert re.search(r"[1-9][\d,]* rows", "\n".join(said.notes))
    assert os.access(kronecker, os.W_OK)
