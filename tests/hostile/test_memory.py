"""Searches on workers with Dask's default thresholds: none is ever paused or killed for memory."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError

PAUSE, SCALE = 0.8, 19
_KEYS = og.Kronecker(SCALE).search_keys(64)
ROOT, SOURCES = int(_KEYS[0]), _KEYS
LIMITS = ["460MB", "500MB", "600MB", "800MB", "1GB"]


class Watched:
    """Most resident memory of a process, sampled every few milliseconds."""

    def __init__(self, pid: int) -> None:
        self.most_bytes, self._process = 0, psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with suppress(psutil.NoSuchProcess):
            while not self._over.wait(0.003):
                self.most_bytes = max(self.most_bytes, self._process.memory_info().rss)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def one_worker(limit: str) -> Iterator[Client]:
    """A worker as Dask starts it, thresholds and all."""
    options: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            memory_limit=limit,
            silence_logs=logging.CRITICAL,
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.build(og.Kronecker(SCALE), tmp_path_factory.mktemp("memory") / "g.zarr", shards=4)


@pytest.fixture(scope="module")
def right(graph: og.Graph) -> dict[str, Any]:
    return {
        "bfs": og.bfs(graph, ROOT).parent,
        "sssp": og.sssp(graph, ROOT).distance,
        "components": og.components(graph).component,
        "many": og.multi_source_bfs(graph, SOURCES, reduce="eccentricity").columns["eccentricity"],
    }


def calls(graph: og.Graph, client: Client, folder: Path) -> Iterator[tuple[str, Any]]:
    """Answers, in an order in which rows of one search are kept when the next begins."""
    yield "sssp", lambda: og.sssp(graph, ROOT, client=client).distance
    yield "sssp", lambda: og.sssp(graph, ROOT, client=client).distance
    yield "bfs", lambda: og.bfs(graph, ROOT, client=client).parent
    yield "components", lambda: og.components(graph, client=client).component
    yield "sssp", lambda: og.sssp(graph, ROOT, client=client, exchange="scheduler").distance
    yield (
        "many",
        lambda: og.multi_source_bfs(graph, SOURCES, reduce="eccentricity", client=client).columns[
            "eccentricity"
        ],
    )
    yield "build", lambda: og.build(og.Kronecker(17), folder / "b.zarr", client=client) and None
    yield "sssp", lambda: og.sssp(graph, ROOT, client=client).distance


def check(limit: str, graph: og.Graph, right: dict[str, Any], folder: Path) -> list[str]:
    """Call everything; what could be done within the limit."""
    done: list[str] = []
    with one_worker(limit) as client:
        (pid,) = client.run(os.getpid).values()
        (state,) = client.scheduler_info(n_workers=-1)["workers"].values()
        watched = Watched(pid)
        for name, call in calls(graph, client, folder):
            begun_s = time.monotonic()
            try:
                found = call()
            except MemoryBudgetError:
                continue
            done.append(name)
            if found is not None:
                np.testing.assert_array_equal(found, right[name])
            assert time.monotonic() - begun_s < 120
        watched.stop()
        assert list(client.run(os.getpid).values()) == [pid], "the worker was killed"
        (address,) = client.scheduler_info(n_workers=-1)["workers"]
        statuses = [event.get("status") for _, event in client.get_events(address)]
        assert "running" in statuses
        assert "paused" not in statuses
        most = watched.most_bytes / state["memory_limit"]
        assert most < PAUSE, f"{limit}: {watched.most_bytes:,} bytes, {most:.2f} of the limit"
    return done


@pytest.mark.timeout(600)
def test_dasks_thresholds_are_never_reached(
    graph: og.Graph, right: dict[str, Any], tmp_path: Path
) -> None:
    assert {"bfs", "sssp", "many", "build"} <= set(check("600MB", graph, right, tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("limit", LIMITS)
def test_dasks_thresholds_are_never_reached_at_any_limit(
    limit: str, graph: og.Graph, right: dict[str, Any], tmp_path: Path
) -> None:
    check(limit, graph, right, tmp_path)


def take(megabytes: int) -> None:
    """Have the worker's process hold memory that is nobody's result."""
    _taken.append(np.ones(megabytes << 17))


_taken: list[Any] = []


def test_kept_rows_are_released_when_others_need_the_memory(
    graph: og.Graph, right: dict[str, Any]
) -> None:
    """Another task of the worker takes what the search left: rows that wait must not pause it."""
    with one_worker("1GB") as client:
        og.sssp(graph, ROOT, client=client)
        assert all(client.run(keeps).values())
        client.submit(take, 400, pure=False).result(timeout=60)
        deadline_s = time.monotonic() + 60
        while any(client.run(keeps).values()):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        np.testing.assert_array_equal(og.sssp(graph, ROOT, client=client).distance, right["sssp"])


def keeps() -> bool:
    from ooc_graph.runtime import engine_cache

    return engine_cache.keeps_any()


def test_a_limit_that_leaves_nothing_is_named_with_the_least(graph: og.Graph) -> None:
    with (
        one_worker("350MB") as client,
        pytest.raises(MemoryBudgetError, match="memory limit of 350,000,000 bytes; Dask steps in"),
    ):
        og.bfs(graph, ROOT, client=client)
