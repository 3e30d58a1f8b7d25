"""A small graph for many sources, what is right there, and runs that are stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import Asked
from ooc_graph.layout import metadata
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.resources import CPU
from ooc_graph.strategies.many import dividing
from ooc_graph.strategies.many import tasks as many_tasks
from ooc_graph.strategies.many.batches import Batches
from ooc_graph.strategies.many.task import Division, ManyTask
from ooc_graph.strategies.many.tiers import BATCHES
from ooc_graph.types import INT64_UNREACHED
from tests.command_line import Ended, call

Call = Callable[..., Ended]
VERTICES = 90


def edges(seed: int = 1, count: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of both signs and no negative cycle; ids with gaps, and two small pieces apart."""
    random = np.random.default_rng(seed)
    by = random.integers(0, 30, VERTICES)
    u, v = random.integers(0, VERTICES - 10, (2, count))
    u, v = np.append(u, [85, 86]), np.append(v, [86, 87])
    weight = random.integers(0, 40, len(u)) + by[u] - by[v]
    keep = u != v
    return (u * 7 + 3)[keep], (v * 7 + 3)[keep], weight[keep]


def arrays(*columns: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.array, columns))


def exact(arcs: Any, sources: list[int], targets: list[int]) -> list[list[int | None]]:
    """Bellman-Ford in Python's integers."""
    rows = []
    for source in sources:
        far: dict[int, int] = {source: 0}
        while True:
            before = dict(far)
            for u, v, w in zip(*(column.tolist() for column in arcs), strict=True):
                if u in far and far[u] + w < far.get(v, math.inf):
                    far[v] = far[u] + w
            if far == before:
                break
        rows.append([far.get(target) for target in targets])
    return rows


def listed(distance: np.ndarray) -> list[list[int | None]]:
    far = INT64_UNREACHED if distance.dtype.kind == "i" else np.inf
    return [[None if d == far else d for d in row] for row in distance.tolist()]


@pytest.fixture(scope="module")
def graph() -> og.Graph:
    return og.from_edges(*edges(), directed=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "g.zarr"
    og.build(edges(), path, directed=True)
    return path


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of two sources, as there is room for three: so many have a batch of whole chunks."""
    width = len(og.from_edges(*edges(), directed=True).original_ids())

    def length(elements: int, itemsize: int) -> int:
        return max(1, min(elements, 3 * width * 8 // itemsize))

    monkeypatch.setattr(metadata, "chunk_length", length)
    monkeypatch.setattr(dividing, "BATCH_SIZES", (1,))
    monkeypatch.setattr(dividing, "TASK_BATCHES", 1)
    return 2


def task_of(asked: Asked, specs: tuple[ArraySpec, ...], device: str = CPU) -> ManyTask:
    """Batches of one source of a graph that is not there."""
    strategy = Batches(device)
    division = Division(strategy.name, method=BATCHES)
    return ManyTask("g", "1", asked, 5, specs, strategy, division)


@contextmanager
def stopped_after(most: int) -> Iterator[list[int]]:
    """Let so many units be finished, then fail; those finished."""
    done: list[int] = []
    real, counting = many_tasks.write_checkpoint, Lock()

    def finish(folder: Path, attempt: Path, number: int, *rest: Any) -> Any:
        with counting:
            if len(done) >= most:
                raise RuntimeError("stopped")
            done.append(number)
        return real(folder, attempt, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_tasks, "write_checkpoint", finish)
        yield done


class _no_cluster:
    def __init__(self, _workers: int = 1) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """The command, in this process, in a folder of its own, without workers of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ooc_graph.runtime.cluster.local_cluster", _no_cluster)
    return partial(call, monkeypatch, capsys)
