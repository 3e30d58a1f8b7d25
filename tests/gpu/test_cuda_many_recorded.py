"""Answers of a CUDA device's batches are reported as they arrive, recorded while others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import MemoryBudgetError, UnexpectedError
from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.cuda.many import host as cuda_many_host
from ooc_graph.kernels.cuda.many import johnson as cuda_johnson
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache
from ooc_graph.search import many
from ooc_graph.strategies.many import searches
from ooc_graph.strategies.many import task as many_task
from ooc_graph.types import IntArray
from tests.gpu.many import MANY, negative_sides, right, sides, some
from tests.said import Said
from tests.test_pairs_recorded import Finished, recorded

CHUNK, EDGES = 32, 40_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One batch at a time, and chunks of fewer sources than it has."""

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in answer_specs(*given))

    engine_cache.release()
    monkeypatch.setattr(many, "answer_specs", specs)
    monkeypatch.setattr(cuda_many_host, "PART_BYTES", 1)
    for module in (cuda_johnson, searches, many_task):
        monkeypatch.setattr(module, "BLOCK_GROUPS", 1)
    yield
    engine_cache.release()


def places(reported: list[tuple[int, int]]) -> list[int]:
    return [place for begin, end in reported for place in range(begin, end)]


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("weights", ["float32", "float64"])
def test_rows_are_there_when_they_are_told_of(weights: str, is_pinned: bool) -> None:
    sources, expected = right("skewed", weights, MANY)
    search = CudaJohnson(*sides("skewed", weights), threads=3)
    answer = np.empty_like(expected)
    if is_pinned:
        memory = cuda().cuda.alloc_pinned_memory(expected.nbytes)
        flat = np.frombuffer(memory, expected.dtype, expected.size)
        answer = flat.reshape(expected.shape)
    answer.fill(-1)
    reported: list[tuple[int, int]] = []

    def hear(begin: int, end: int) -> None:
        assert answer[begin:end].tobytes() == expected[begin:end].tobytes()
        reported.append((begin, end))

    every = np.arange(expected.shape[1])
    found = search.run_columns(sources, every, sources, answer=answer, on_done=OnDone(hear))
    assert found is answer
    assert len(reported) == -(-MANY // search.search.slots)
    assert places(reported) == list(range(MANY))


@pytest.mark.parametrize("make", [sides, negative_sides])
def test_parents_are_there_when_they_are_told_of(make: Callable[..., Any]) -> None:
    out, into = make("skewed, directed", "float64")
    search, sources = CudaJohnson(out, into, threads=2), some(out, MANY)
    expected = CudaJohnson(out, into, threads=2).run_with_parents(sources)
    answers, reported = search.empty(MANY), list[tuple[int, int]]()

    def hear(begin: int, end: int) -> None:
        for mine, theirs in zip(answers, expected, strict=True):
            assert mine[begin:end].tobytes() == theirs[begin:end].tobytes()
        reported.append((begin, end))

    search.run_with_parents(sources, answers, on_done=OnDone(hear))
    assert len(reported) == -(-MANY // search.search.slots)
    assert places(reported) == list(range(MANY))


@pytest.fixture(scope="module", params=["float32", "int64", "negative"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    random = np.random.default_rng(15)
    source = (3_000 * random.random(EDGES) ** 3).astype(np.int64)
    target = (3_000 * random.random(EDGES) ** 2).astype(np.int64)
    weight = random.integers(1, 50, EDGES)
    dtype = "int64" if request.param == "negative" else request.param
    if request.param == "negative":
        by = random.integers(0, 90, 3_000)
        weight = weight + by[source] - by[target]
    keep = source != target
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    edges = source[keep], target[keep], weight[keep].astype(dtype)
    return og.build(edges, path, directed=True, device="cpu")


@contextmanager
def launches(before: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls ``before`` with the number of each launch that has sources; theirs, all together."""
    searched: list[int] = []
    plain, count = CudaManySearch._search, 0

    def search(self: CudaManySearch, sources: IntArray, *rest: Any) -> None:
        nonlocal count
        if len(sources):
            before(count)
            count += 1
            searched.extend(sources.tolist())
        plain(self, sources, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaManySearch, "_search", search)
        yield searched


OPTIONS: list[dict[str, Any]] = [
    {},
    {"parents": True},
    {"reduce": "eccentricity"},
    {"reduce": "sum"},
    {"reduce": "histogram", "bins": 5, "bin_width": 20},
]


def internal(graph: og.Graph, sources: IntArray, chunks: set[int]) -> list[int]:
    """Ids of the sources of some chunks that have arcs."""
    every = np.searchsorted(graph.original_ids(), sources)
    kept = [place for n, place in enumerate(every.tolist()) if n // CHUNK in chunks]
    found = graph.internal_of()[kept]
    return sorted(found[found >= 0].tolist())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_run_that_ends_in_the_middle_of_a_task_goes_on_there(
    store: og.Graph, tmp_path: Path, options: dict[str, Any]
) -> None:
    sources, out = store.original_ids()[:600], tmp_path / "d.zarr"

    def search(out: Path) -> None:
        og.johnson(store, sources, out=out, device="cuda", **options)

    search(tmp_path / "whole.zarr")

    def stop(number: int) -> None:
        # Of the parts before most are recorded, and others are just being.
        if number == 3:
            finished.wait_for(1)
            raise RuntimeError("stopped")

    with pytest.MonkeyPatch.context() as patch:
        finished = Finished(patch)
        with launches(stop), pytest.raises(UnexpectedError, match="stopped"):
            search(out)
    kept, every = recorded(tmp_path), set(range(-(-len(sources) // CHUNK)))
    assert kept == set(finished.numbers)
    assert 1 <= len(kept) < len(every)
    with pytest.MonkeyPatch.context() as patch, launches(lambda _: None) as searched:
        rest = Finished(patch)
        search(out)
    assert sorted(rest.numbers) == sorted(every - kept)
    assert sorted(searched) == internal(store, sources, every - kept)
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity


def test_what_batches_recorded_is_not_searched_one_by_one(store: og.Graph, tmp_path: Path) -> None:
    sources, out, said = store.original_ids()[:600], tmp_path / "d.zarr", Said()
    og.johnson(store, sources, out=tmp_path / "whole.zarr", device="cpu")

    def refuse(number: int) -> None:
        if number == 3:
            finished.wait_for(1)
            raise MemoryBudgetError("the batch does not fit the device")

    with pytest.MonkeyPatch.context() as patch:
        finished = Finished(patch)
        with launches(refuse):
            og.johnson(store, sources, out=out, device="cuda", progress=said)
    assert sorted(finished.numbers) == list(range(-(-len(sources) // CHUNK)))
    assert any(note.startswith("going on with") for note in said.notes)
    assert said.notes[-1].startswith("apsp searched one by one on the CUDA device")
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
