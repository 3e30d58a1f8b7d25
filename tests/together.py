"""What tests of ranks that search together share: graphs, and searches by two workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

import ooc_graph as og
from ooc_graph.exchange.attempt import DRAIN_S
from ooc_graph.kernels.common import meeting
from ooc_graph.types import NoProgress
from tests.strategies import Arcs, arcs_of, grid, skewed

FLOAT = "float32"
MEASURES = {"bfs": "level", "sssp": "distance"}


def pieces() -> Arcs:
    """A path and a star that are apart, so that few vertices are reached."""
    path = np.arange(3000)
    return arcs_of(
        np.append(path, np.full(500, 4000)),
        np.append(path + 1, 4001 + np.arange(500)),
        np.ones(3500, np.float32),
        directed=True,
    )


GRAPHS: dict[str, Callable[[], Arcs]] = {
    "skewed": lambda: skewed(9000, 60_000, FLOAT, directed=False, seed=1),
    "skewed, directed": lambda: skewed(9000, 60_000, FLOAT, directed=True, seed=2),
    "dense": lambda: skewed(3000, 200_000, FLOAT, directed=True, seed=3),
    "grid": lambda: grid(70, FLOAT),
    "pieces": pieces,
    "rows for one rank": lambda: skewed(300, 900, FLOAT, directed=False, seed=4),
}


def path_in(folder: Path, shards: int) -> og.Graph:
    """A path of 1,501 vertices: ranks that go by supersteps take many."""
    ends = np.arange(1500), np.arange(1, 1501)
    given = (*ends, np.ones(1500, np.float32)), folder / "path.zarr"
    return og.build(*given, rows="both", shards=shards, client=False, directed=True)


def searched(
    kernel: str, graph: og.Graph, client: Client, root: int, **options: Any
) -> tuple[Any, int]:
    """The answer of ranks, and how many supersteps it took."""
    said: list[str] = []
    progress = type("Said", (NoProgress,), {"note": lambda _, text: said.append(text)})()
    given = {"client": client, "exchange": "scheduler", "progress": progress}
    answer = getattr(og, kernel)(graph, root, **given, **options)
    (line,) = [text for text in said if " supersteps" in text]
    return answer, int(line.split(" supersteps")[0].rsplit(" ", 1)[1].replace(",", ""))


def same(kernel: str, answer: Any, graph: og.Graph, root: int) -> None:
    """Compare an answer with that of one process."""
    right = getattr(og, kernel)(graph, root, client=False)
    for name in (MEASURES[kernel], "parent"):
        assert getattr(answer, name).tobytes() == getattr(right, name).tobytes()


def require_soon_without_one(
    kernel: str, graph: og.Graph, client: Client, die: Callable[[], None]
) -> None:
    """One worker dies at its launch; the other does not wait until it is ended."""
    searched(kernel, graph, client, 0)
    client.run(die, workers=[min(client.scheduler_info(n_workers=-1)["workers"])])
    begun_s = time.monotonic()
    answer = getattr(og, kernel)(graph, 17, client=client, exchange="scheduler")
    assert time.monotonic() - begun_s < DRAIN_S / 2
    same(kernel, answer, graph, 17)


def make_late(of: type, step: str) -> None:
    """Have the rank of one worker come later to a step than others wait, once."""
    usual, patience_s = getattr(of, step), meeting.PATIENCE_S

    def late(rank: Any, *given: Any) -> Any:
        setattr(of, step, usual)
        if rank._dealing.shard == 0:
            time.sleep(4)
        meeting.PATIENCE_S = 0
        try:
            return usual(rank, *given)
        finally:
            meeting.PATIENCE_S = patience_s

    setattr(of, step, late)
