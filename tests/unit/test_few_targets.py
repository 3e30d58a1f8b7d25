"""Chunks of many sources with few targets: of a batch as others, and memory of few sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import asked as answers
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.errors import UnexpectedError
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import Job, Many, Request
from ooc_graph.model.resources import CPU
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search import many
from ooc_graph.strategies.many import dividing, on_disk, searches
from ooc_graph.strategies.many import tasks as many_tasks
from ooc_graph.strategies.many.task import ManyTask
from tests.small_pairs import stopped_after
from tests.test_pairs_stored import edges, no_room

TARGETS = [1, 4, 100, 901, 3000]
BATCH, CHUNK, SOURCES = 4, 12, 96
GIB = 1 << 30


@pytest.mark.parametrize(
    ("options", "chunk"),
    [({}, 64), ({"parents": True}, 64), ({"reduce": "sum"}, 64), ({"hops": True}, 256)],
    ids=str,
)
def test_a_chunk_is_a_batch(options: dict[str, Any], chunk: int) -> None:
    """However few bytes it has: a run that is killed has lost no more."""
    specs = answer_specs(Asked(np.arange(10), **options), 10**6, 10, np.dtype(np.float64))
    assert {spec.chunk for spec in specs} == {chunk}
    (few,) = answer_specs(Asked(np.arange(10)), 40, 10, np.dtype(np.float64))
    assert few.chunk == 40
    (whole,) = answer_specs(Asked(), 10**6, 10**6, np.dtype(np.float64))
    assert whole.chunk == 2


@pytest.fixture(scope="module", params=["signed", "hubs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Out of the store the first is searched in batches, the second one by one."""
    is_hubs = request.param == "hubs"
    source, target, weight = edges("float32", 0 if is_hubs else 100, hubs=is_hubs)
    # Some vertices have no arcs but to themselves.
    lonely = np.array([0, 3000])
    found = np.append(source, lonely), np.append(target, lonely), np.append(weight, [1, 1])
    given = *found[:2], found[2].astype(np.float32)
    return og.build(given, tmp_path_factory.mktemp("stores") / "g.zarr", directed=True)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of few sources, as where memory is scarce, and chunks of three."""
    for hops in (False, True):
        monkeypatch.setitem(answers.TOGETHER, hops, CHUNK)
    monkeypatch.setattr(dividing, "BATCH_SIZES", (BATCH,))
    monkeypatch.setattr(dividing, "BFS_FACTOR", 1)
    monkeypatch.setattr(dividing, "TASK_BATCHES", 1)
    monkeypatch.setattr(on_disk, "BATCH_SIZES", (BATCH,))
    engine_cache.release()
    yield
    engine_cache.release()


FIND: list[Callable[..., Any]] = [og.johnson, og.multi_source_bfs]
WHERE: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "in memory": nullcontext,
    "in the store": no_room,
}


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("find", FIND)
@pytest.mark.parametrize("where", WHERE)
def test_answers_are_columns_of_those_to_all(
    store: og.Graph, find: Any, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = store.original_ids()
    sources = np.append(ids[3 : SOURCES + 1], [3000, 0])
    whole, stretches = find(store, sources, device="cpu"), list[int]()
    columns = np.searchsorted(ids, TARGETS)

    class Noted(searches.SourceRows):  # type: ignore[misc, name-defined]
        def __init__(self, answer: Any, *rest: Any) -> None:
            stretches.append(len(answer))
            super().__init__(answer, *rest)

    monkeypatch.setattr(searches, "SourceRows", Noted)
    for options in ({}, {"cutoff": 3}):
        wide = find(store, sources, device="cpu", **options) if options else whole
        with WHERE[where]():
            given = {"targets": TARGETS, "device": "cpu", **options}
            out = tmp_path / f"{len(options)}.zarr"
            stretches.clear()
            found = find(store, sources, out=out, overwrite=True, **given)
            if where == "in the store":
                # Never those of a chunk.
                assert 0 < max(stretches) <= BATCH
            elif find is og.johnson:
                # A batch's go to their columns alone.
                assert not stretches
            held = find(store, sources, **given)
        (spec,) = (one for one in Stored.open(out).arrays() if one.path == found.measure)
        assert spec.chunk == CHUNK
        right = wide.read(found.measure)[:, columns].tobytes()
        assert found.read(found.measure).tobytes() == right
        assert held.read(found.measure).tobytes() == right


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("find", FIND)
def test_a_task_without_room_sends_the_columns(
    store: og.Graph, find: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker does whose answers stay in the memory of who asks."""
    tasks, prepare = list[ManyTask](), many.prepare

    def prepared(task: ManyTask) -> None:
        tasks.append(task)
        prepare(task)

    monkeypatch.setattr(many, "prepare", prepared)
    found = find(store, store.original_ids()[:SOURCES], targets=TARGETS, device="cpu")
    (task,) = tasks
    assert task.reserved.slice_sources == 0
    done = many_tasks.solve(task, np.arange(SOURCES))
    (block,) = done.found
    assert block.tobytes() == found.read(found.measure).tobytes()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("find", FIND)
@pytest.mark.parametrize("where", WHERE)
def test_a_run_that_ended_goes_on(store: og.Graph, find: Any, where: str, tmp_path: Path) -> None:
    given = {"targets": TARGETS, "device": "cpu"}
    sources = store.original_ids()[:SOURCES]
    with WHERE[where]():
        with stopped_after(1) as done, pytest.raises(UnexpectedError, match="stopped"):
            find(store, sources, out=tmp_path / "d.zarr", **given)
        assert len(done) == 1
        find(store, sources, out=tmp_path / "d.zarr", **given)
        find(store, sources, out=tmp_path / "whole.zarr", **given)
    assert (
        Stored.open(tmp_path / "d.zarr").identity == Stored.open(tmp_path / "whole.zarr").identity
    )


def test_few_targets_take_memory_of_few_sources(
    store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a chunk has more than are searched from at once, as memory is scarce."""
    monkeypatch.setattr(this_process, "cores", lambda: 1)
    specs = answer_specs(Asked(np.arange(10)), 1000, 10, np.dtype(np.float32))
    many_sources = Many(specs, Asked(np.arange(10)), in_memory=False)
    request = Request(many_sources.asked.kernel, many=many_sources)
    job = Job(store, request, ThisProcess(GIB, CPU).resources())

    def answers_of(lanes: int) -> int:
        return on_disk.beside_parts(job, "batches", lanes)["answers of tasks"]

    few, many = (answers_of(lanes) for lanes in (16, 64))
    assert many - few == store.rows * 4 * (64 - 16) - 64 * 10 * 4
