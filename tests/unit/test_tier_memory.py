"""Searches and runs of Graph500 that go on with arcs in the store, by plan or after a refusal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.graph500 import batches
from ooc_graph.kernels.common.store import rows as tier_rows
from ooc_graph.kernels.cpu.bfs import search as bfs_search
from ooc_graph.kernels.cpu.sssp import search as sssp_search
from ooc_graph.kernels.cpu.store import bfs as tier_bfs
from ooc_graph.kernels.cpu.store import sssp_search as tier_sssp_search
from ooc_graph.memory.cpu import disk, plan
from ooc_graph.runtime import engine_cache
from ooc_graph.shards import load, tiers
from ooc_graph.shards.load import Graph
from ooc_graph.strategies import ranks
from ooc_graph.strategies.cpu import in_memory
from tests.graph500_runs import run
from tests.said import Said

KERNELS = ("bfs", "sssp")
SEARCH_MODULES = (bfs_search, sssp_search, tier_bfs, tier_rows, tier_sssp_search)


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def kronecker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kronecker") / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path)
    return path


class Scarce:
    """numpy that refuses memory once at each place that asks for it, one place a search.

    It stands in for the name ``np`` of the modules that a test puts it into, and sees the calls
    they make by that name, of the functions in `ALLOCATES`. A place is a line of a file; the first
    call there is refused, and no other.

    It does not see other functions of numpy that allocate: argsort, copy, cumsum, diff, linspace,
    median, minimum, nonzero, repeat, searchsorted, sort, unique, where, and so on; nor its scalar
    types. Nor methods and operators of arrays (astype, copy, ``a + b``, indexing by arrays), what
    numpy, compiled kernels or the interpreter allocate themselves, and modules it is not put into;
    nor what is not numpy's: mmap, CuPy's pools, and pinned memory.
    """

    ALLOCATES = (
        *("empty", "zeros", "full", "empty_like", "zeros_like"),
        *("arange", "array", "concatenate", "flatnonzero"),
    )

    def __init__(self) -> None:
        self.places: set[tuple[str, int]] = set()
        self.has_refused = False

    def __getattr__(self, name: str) -> Any:
        made = getattr(np, name)
        if name not in self.ALLOCATES:
            return made

        def make(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            place = caller.f_code.co_filename, caller.f_lineno
            if not self.has_refused and place not in self.places:
                self.places.add(place)
                self.has_refused = True
                raise MemoryError(f"at {place}")
            return made(*arguments, **named)

        return make


@pytest.mark.parametrize("begun", ["in memory", "in the store"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_refused_at_any_allocation_is_done_without(kernel, begun, kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    wanted = getattr(og, kernel)(graph, source, device="cpu").parent.tobytes()
    # Kernels are not compiled with what stands in for numpy.
    limit = in_memory.resident_bytes(graph, kernel, copies=False) - 1
    in_store = begun == "in the store"
    how = {"memory_limit": limit} if in_store else {}
    getattr(og, kernel)(graph, source, device="cpu", memory_limit=limit)
    scarce = Scarce()
    for module in (disk, tiers, load, scatter, *SEARCH_MODULES):
        monkeypatch.setattr(module, "np", scarce)
    while True:
        engine_cache.release()
        scarce.has_refused = False
        said = Said()
        found = getattr(og, kernel)(graph, source, device="cpu", progress=said, **how)
        assert found.parent.tobytes() == wanted
        if not scarce.has_refused:
            break
        assert f"{kernel} held" in said.notes[-1]
        assert said.notes[0].startswith(f"memory was refused: {kernel} leaves arcs in the store")
    assert len(said.notes) == in_store
    assert len(scarce.places) > (20 if in_store else 5)


def refuse(*_: Any, **__: Any) -> Any:
    raise MemoryError


@pytest.mark.parametrize("why", ["limit", "refused"])
def test_graph500_goes_on_with_arcs_in_the_store(why, tmp_path, monkeypatch):
    """Validated, with what was held and read in the report and the record."""
    small = og.build(og.Kronecker(10), tmp_path / "small.zarr")
    row_bytes = 1 << 20
    monkeypatch.setattr(ranks, "STATE_BYTES", dict.fromkeys(KERNELS, row_bytes))
    monkeypatch.setattr(plan, "rules", lambda _: iter([plan.HeadRule(1)]))
    limit = None
    if why == "limit":
        # What a build of any size needs, and not what so many rows are said to.
        limit = 60 << 20
        assert batches.check_bytes(small, "sssp") < limit < small.rows * row_bytes
    else:
        monkeypatch.setattr(Graph, "load", refuse)
    said = run(10, tmp_path / "run", limit)
    notes = [note.split(" leaves arcs in the store")[0] for note in said.notes]
    expected = [f"memory was refused: {kernel}" for kernel in KERNELS if why == "refused"]
    assert notes == expected
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    (line,) = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert json.loads(line)["tiers"] == report["tiers"]
    for kernel in KERNELS:
        facts = report["tiers"][kernel]
        mine = [search for search in report["searches"] if search["kernel"] == kernel]
        assert facts["tier"] == "disk"
        assert facts["bytes read of the store"] == sum(one["read_bytes"] for one in mine)
        assert facts["rows fetched"] == sum(one["fetched_rows"] for one in mine)
        assert facts["rows fetched"] > 0
        assert facts["blocks given again from memory"] > 0
        assert facts["share of arcs in memory"] < 0.5
        for name, seconds in (
            ("seconds of reading", "reading_s"),
            ("seconds that searches waited for it", "waited_s"),
        ):
            assert facts[name] == pytest.approx(sum(one[seconds] for one in mine), rel=1e-3)
        assert facts["bytes given again from memory"] > 0
        assert 0 < facts["disk: bytes read in sequence"] <= 256 << 20
        assert facts["disk: bytes a second in sequence"] > 0
        if facts["blocks read"]:
            assert 0 <= facts["share of reading time in which searches went on"] <= 1
            assert facts["blocks in flight, on average"] > 0
            rate = facts["bytes read a second of reading"]
            expected = rate / facts["disk: bytes a second in sequence"]
            assert facts["share of the disk's rate in sequence"] == pytest.approx(expected, 1e-2)
        if why == "limit":
            # Answers wait in files, and are validated when the graph has left memory.
            assert facts["bytes: in all"] <= facts["budget"] == limit
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("Memory and store: ") == 2
    assert "rows fetched</th>" in page
    assert "waited</th>" in page
