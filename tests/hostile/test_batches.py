"""Batches of searches in which a worker is killed at a random moment: the same bytes, and no hang.

When a worker is killed, and which, is drawn from a seed. A line for each batch prints the seed, the
time, and its ratio to the median time of undisturbed batches.
"""

from __future__ import annotations

import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.layout.manifest import Manifest
from tests.hostile.arena import Arena, arena_of

SCALE, ROOTS, KILLS = 16, 300, 20
LONGEST_S = 75.0


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with dask.config.set({"ooc-graph.answer-timeout": "2s", "ooc-graph.patience": "6s"}):
        yield


class Batch:
    """Searches from many roots, each with an answer of its own."""

    def __init__(self, folder: Path, search: str) -> None:
        source = og.Kronecker(SCALE)
        self._search, self._folder, self._runs = getattr(og, search), folder, 0
        self._graph = og.build(source, folder / "graph.zarr", rows="both", device="cpu")
        self._roots = source.search_keys(ROOTS).tolist()

    def run(self, client: Client) -> tuple[float, dict[str, str]]:
        """Seconds of a batch, and the manifest's digest of each answer."""
        self._runs += 1
        out, begun_s = self._folder / f"answers {self._runs}", time.monotonic()
        self._search(self._graph, self._roots, out=out, client=client)
        taken_s = time.monotonic() - begun_s
        stores = sorted(out.glob("*.zarr"))
        assert len(stores) == ROOTS
        return taken_s, {s.name: Manifest.load(s).sha256 for s in stores}


def kill_one(arena: Arena, draw: random.Random, after_s: float) -> None:
    time.sleep(after_s)
    arena.send(signal.SIGKILL, [draw.choice(arena.worker_pids())])


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("search", ["bfs", "sssp"])
def test_a_worker_is_killed_in_each_of_many_batches(search: str, tmp_path: Path) -> None:
    batch = Batch(tmp_path, search)
    with arena_of(tmp_path / "arena", 2, with_nanny=True) as arena, arena.connect() as client:
        batch.run(client)
        undisturbed = [batch.run(client) for _ in range(3)]
        usual_s, right = statistics.median(s for s, _ in undisturbed), undisturbed[0][1]
        print(f"{search}: {usual_s:.1f} s undisturbed", flush=True)
        ratios = []
        for seed in range(KILLS):
            draw = random.Random(seed)
            killing = threading.Thread(
                target=kill_one, args=(arena, draw, draw.uniform(0, usual_s)), daemon=True
            )
            killing.start()
            taken_s, found = batch.run(client)
            killing.join()
            assert found == right, f"seed {seed}: wrong bytes"
            assert taken_s < LONGEST_S, f"seed {seed}: {taken_s:.0f} s"
            ratios.append(taken_s / usual_s)
            print(f"seed {seed}: {taken_s:.1f} s, {ratios[-1]:.2f} times", flush=True)
            assert arena.heal()
            arena.until_clean()
        print(f"{search}: {statistics.mean(ratios):.2f} times on average", flush=True)
