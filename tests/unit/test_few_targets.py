"""Chunks of many sources with few targets: not too small, and memory of a few sources at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import pairs as answers
from ooc_graph.answers.pairs import Asked, pairs_specs
from ooc_graph.layout.stored import Stored
from ooc_graph.session import (
    pair_searches,
    pair_tasks,
    pairs,
    pairs_plan,
    pairs_stored,
    resident,
)
from ooc_graph.session.devices import CPU
from ooc_graph.session.pair_tasks import PairsTask
from ooc_graph.session.place import Here
from tests.small_pairs import stopped_after
from tests.test_pairs_stored import edges, no_room

TARGETS = [1, 4, 100, 901, 3000]
BATCH, SOURCES = 4, 96
GIB = 1 << 30


@pytest.mark.parametrize(
    ("sources", "targets", "dtype", "hops", "chunk"),
    [
        (10**6, 10, "float64", False, 832),
        (10**6, 10, "float32", False, 1_664),
        (10**6, 10, "int32", True, 1_792),
        (10**6, 1 << 10, "float64", False, 64),
        # No more than a 256th of all sources, in whole batches.
        (10**6, 1, "float32", False, 3_904),
        (10**5, 10, "float64", False, 384),
        (30_000, 10, "float64", False, 64),
        (40, 10, "float64", False, 40),
    ],
)
def test_a_chunk_has_64_kib_where_there_are_many(
    sources: int, targets: int, dtype: str, hops: bool, chunk: int
) -> None:
    asked = Asked(np.arange(targets), hops=hops)
    (spec,) = pairs_specs(asked, sources, targets, np.dtype(dtype))
    assert spec.chunk == chunk
    is_large = spec.chunk * spec.item_bytes >= 1 << 16
    assert is_large or spec.chunks <= 512


@pytest.mark.parametrize("options", [{"parents": True}, {"reduce": "sum"}], ids=str)
def test_others_have_chunks_of_a_batch(options: dict[str, Any]) -> None:
    specs = pairs_specs(Asked(np.arange(10), **options), 10**6, 10, np.dtype(np.float64))
    assert {spec.chunk for spec in specs} == {64}
    (whole,) = pairs_specs(Asked(), 10**6, 10**6, np.dtype(np.float64))
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
    """Batches of four sources, chunks of twelve of them, a batch or two at a time."""
    for hops in (False, True):
        monkeypatch.setitem(answers.TOGETHER, hops, BATCH)
    monkeypatch.setattr(answers, "MANY_CHUNKS", 2)
    monkeypatch.setattr(pairs_plan, "LANES", (BATCH,))
    monkeypatch.setattr(pairs_plan, "BFS_LANES", 1)
    monkeypatch.setattr(pairs_plan, "BATCHES", 1)
    monkeypatch.setattr(pairs_stored, "LANES_STORED", (BATCH,))
    resident.release()
    yield
    resident.release()


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

    class Noted(pair_searches.SourceRows):  # type: ignore[misc, name-defined]
        def __init__(self, answer: Any, *rest: Any) -> None:
            stretches.append(len(answer))
            super().__init__(answer, *rest)

    monkeypatch.setattr(pair_searches, "SourceRows", Noted)
    for options in ({}, {"cutoff": 3}):
        wide = find(store, sources, device="cpu", **options) if options else whole
        with WHERE[where]():
            given = {"targets": TARGETS, "device": "cpu", **options}
            out = tmp_path / f"{len(options)}.zarr"
            stretches.clear()
            found = find(store, sources, out=out, overwrite=True, **given)
            if find is og.johnson and where == "in memory":
                # A batch's go to their columns alone.
                assert not stretches
            else:
                # Never those of a chunk.
                assert 0 < max(stretches) <= 2 * BATCH * max(1, Here().threads)
            held = find(store, sources, **given)
        (spec,) = (one for one in Stored.open(out).arrays() if one.path == found.measure)
        assert spec.chunk == SOURCES // 2
        right = wide.read(found.measure)[:, columns].tobytes()
        assert found.read(found.measure).tobytes() == right
        assert held.read(found.measure).tobytes() == right


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("find", FIND)
def test_a_task_without_room_sends_the_columns(
    store: og.Graph, find: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker does whose answers stay in the memory of who asks."""
    tasks, prepare = list[PairsTask](), pairs.prepare

    def prepared(task: PairsTask) -> None:
        tasks.append(task)
        prepare(task)

    monkeypatch.setattr(pairs, "prepare", prepared)
    found = find(store, store.original_ids()[:SOURCES], targets=TARGETS, device="cpu")
    (task,) = tasks
    if find is og.johnson:
        assert task.stretch == 0
    else:
        assert 0 < task.stretch < task.spec.chunk
    done = pair_tasks.solve(task, np.arange(SOURCES))
    (block,) = done.found
    assert block.tobytes() == found.read(found.measure).tobytes()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("find", FIND)
@pytest.mark.parametrize("where", WHERE)
def test_a_run_that_ended_goes_on(store: og.Graph, find: Any, where: str, tmp_path: Path) -> None:
    given = {"targets": TARGETS, "device": "cpu"}
    sources = store.original_ids()[:SOURCES]
    with WHERE[where]():
        with stopped_after(1) as done, pytest.raises(RuntimeError, match="stopped"):
            find(store, sources, out=tmp_path / "d.zarr", **given)
        assert len(done) == 1
        find(store, sources, out=tmp_path / "d.zarr", **given)
        find(store, sources, out=tmp_path / "whole.zarr", **given)
    assert (
        Stored.open(tmp_path / "d.zarr").identity == Stored.open(tmp_path / "whole.zarr").identity
    )


def test_few_targets_take_no_more_memory_than_chunks_of_a_batch(
    store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, place = Asked(np.arange(10)), Here(GIB, CPU)
    monkeypatch.setattr(Here, "threads", 2)

    def needed(sources: int, method: str = "", lanes: int = 0) -> int:
        specs = pairs_specs(asked, sources, 10, np.dtype(np.float32))
        given = store, specs, asked, place
        if method:
            _, _, chunks, bytes_ = pairs_stored.way_of(method, lanes, *given, in_memory=False)
        else:
            plan = pairs_plan.plan_of(*given, CPU, in_memory=False)
            chunks, bytes_ = plan.chunks, plan.needed_bytes
        if specs[0].chunk == 64:
            return bytes_
        # What was asked for of the chunks that are there at once is all there is more.
        return bytes_ - chunks * specs[0].chunk * specs[0].item_bytes * place.threads

    assert needed(10**6) <= needed(256)
    for method, lanes in (("batches", 64), ("batches", 16), ("one by one", 1)):
        assert needed(10**6, method, lanes) <= needed(256, method, lanes)
