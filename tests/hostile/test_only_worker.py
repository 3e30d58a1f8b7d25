"""Every call while the only worker is killed: its nanny's next one does the work."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest

from tests.hostile.arena import Arena, arena_of
from tests.hostile.works import Works


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("only") / "arena"
    with arena_of(folder, 1, with_nanny=True) as arena, dask.config.set({"ooc-graph.patience": 40}):
        yield arena


# What others do as well: read text, write an answer, search without ranks.
VARIANTS = {"build of text", "bfs to a store", "sssp", "many sources to a store"}


@pytest.mark.parametrize(
    "call",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in VARIANTS)) for name in Works.NAMES],
)
def test_the_only_worker_is_killed(call: str, works: Works, arena: Arena, tmp_path: Path) -> None:
    """Whenever that is: before a task arrives, while it runs, or when it has ended."""
    (pid,) = arena.worker_pids()
    kill = threading.Timer(0.05, arena.send, [signal.SIGKILL, [pid]])
    with arena.connect() as client:
        kill.start()
        begun_s = time.monotonic()
        found = works.calls[call](client, tmp_path)
        kill.join()
    assert found == works.right[call]
    assert time.monotonic() - begun_s < 60
    assert arena.heal()
    assert arena.worker_pids() != [pid]
    arena.until_clean()
