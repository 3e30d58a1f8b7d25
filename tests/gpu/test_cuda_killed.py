"""A run on a CUDA device that is killed, and what the next one does again; as on the CPU."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import TOGETHER, answer_specs
from ooc_graph.kernels.common.completion import raise_if_cancelled
from ooc_graph.kernels.cpu.store import one_by_one as tier_singly
from ooc_graph.kernels.cuda.many import bfs as cuda_many_bfs
from ooc_graph.kernels.cuda.many import johnson as cuda_johnson
from ooc_graph.kernels.cuda.many.bfs_batch import BfsBatches
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.many.search_plan import BATCH_BYTES
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache, process, this_process
from ooc_graph.search import many
from ooc_graph.strategies.many import dividing, searches
from ooc_graph.strategies.many import task as many_task
from ooc_graph.strategies.many import tasks as many_tasks
from tests.command_line import LIMIT_S, REPOSITORY, running
from tests.gpu.test_cuda_many_singly import PINNED, RESIDENT, without
from tests.test_pairs_killed import logged

CHUNK, THREADS, SOURCES, EDGES = 32, 2, 1200, 40_000
KILL_AT = 9
"""Units that are recorded, or just being: more than one batch has, fewer than there are."""
KINDS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "batches": (og.johnson, (), {}),
    "batches with parents": (og.johnson, (), {"parents": True}),
    "batches that are reduced": (og.johnson, (), {"reduce": "eccentricity"}),
    "one by one": (og.johnson, RESIDENT, {}),
    "one by one, pinned": (og.johnson, PINNED, {}),
    "batches of levels": (og.multi_source_bfs, (), {}),
    "batches of levels that are reduced": (og.multi_source_bfs, (), {"reduce": "sum"}),
    "levels": (og.multi_source_bfs, RESIDENT, {}),
    "levels, pinned": (og.multi_source_bfs, PINNED, {}),
}
LANES = BATCH_BYTES // np.dtype(np.float32).itemsize
"""Sources of a batch; one of levels has half as many, and so has all that is lost one by one."""


def made(path: Path) -> og.Graph:
    """Rows of both orders, hubs, weights that spread."""
    random = np.random.default_rng(21)
    source = (3_000 * random.random(EDGES) ** 3).astype(np.int64)
    target = (3_000 * random.random(EDGES) ** 2).astype(np.int64)
    weight = random.random(EDGES).astype(np.float32)
    return og.build((source, target, weight), path, rows="both", shards=4, device="cpu")


def search(store: str, out: str, kind: str, log: str, kill_at: int | None = None) -> None:
    """Find the answers of one of `KINDS` with small chunks, and log what is searched.

    Parameters
    ----------
    log
        Gets a line for each task when its search ends: places of its sources. A file beside it gets
        a character for each source when its search begins.
    kill_at
        The process kills itself when so many units are recorded, or are just being, and it is
        about to record another one.
    """

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in answer_specs(*given))

    find, refused, options = KINDS[kind]
    solve, finish = many_tasks._search, many_tasks.write_checkpoint
    finished, counting = 0, threading.Lock()

    def searching(task: Any, places: Any, *rest: Any) -> Any:
        found = solve(task, places, *rest)
        if len(places):
            with Path(log).open("a") as file:
                print(*places.tolist(), file=file)
        return found

    def begin(sources: int) -> None:
        with Path(log).with_suffix(".begun").open("a") as file:
            file.write("." * sources)

    def launching(launch: Any) -> Any:
        def call(self: Any, sources: Any, *rest: Any) -> None:
            begin(len(sources))
            launch(self, sources, *rest)

        return call

    def beginning() -> None:
        begin(1)
        raise_if_cancelled()

    def finishing(*given: Any) -> Any:
        nonlocal finished
        with counting:
            if finished == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            finished += 1
        return finish(*given)

    graph = og.open(store)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(many, "answer_specs", specs)
        # One batch at a time.
        for module in (cuda_johnson, searches, many_task):
            patch.setattr(module, "BLOCK_GROUPS", 1)
        for hops in (False, True):
            patch.setitem(TOGETHER, hops, LANES // 2)
        patch.setattr(this_process, "cores", lambda: THREADS)
        patch.setattr(process, "cores", lambda: THREADS)
        patch.setattr(process, "_devices", {})
        for batches in (CudaManySearch, BfsBatches):
            patch.setattr(batches, "_search", launching(batches._search))
        # Batches of levels have no more sources than there are chunks enough for, and no trial.
        patch.setattr(BfsBatches, "slots", LANES // 2)
        patch.setattr(dividing, "CUDA_BFS_SLOTS", LANES // 2)
        patch.setattr(cuda_many_bfs, "TRIED_FROM", SOURCES)
        patch.setattr(tier_singly, "raise_if_cancelled", beginning)
        patch.setattr(many_tasks, "_search", searching)
        patch.setattr(many_tasks, "write_checkpoint", finishing)
        if refused:
            stack.enter_context(without(*refused))
        engine_cache.release()
        find(graph, graph.original_ids()[:SOURCES], out=out, device="cuda", **options)
        engine_cache.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_does_no_more_again_than_what_was_not_recorded(
    tmp_path: Path, kind: str
) -> None:
    store, out = tmp_path / "g.zarr", tmp_path / "d.zarr"
    graph = made(store)
    first, second = tmp_path / "first", tmp_path / "second"
    given = *map(repr, (str(store), str(out), kind, str(first))), str(KILL_AT)
    code = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from tests.gpu.test_cuda_killed import search
search({", ".join(given)})
"""
    with running(["-c", code]) as process:
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == -signal.SIGKILL, said
    assert not out.exists()
    (left,) = tmp_path.glob("d.zarr.partial-*")
    units = {int(path.stem) for path in (left / "spill/done").glob("*.json")}
    recorded = {place for unit in units for place in range(unit * CHUNK, (unit + 1) * CHUNK)}
    # Threads may have been in the middle of a record.
    assert KILL_AT - 2 * THREADS <= len(units) <= KILL_AT

    search(str(store), str(out), kind, str(second))
    again = [place for places in logged(second) for place in places]
    assert sorted(again) == sorted(set(range(SOURCES)) - recorded)
    has_arcs = graph.internal_of()[sorted(recorded)] >= 0
    searched_again = first.with_suffix(".begun").stat().st_size - int(has_arcs.sum())
    is_small = "levels" in kind or not kind.startswith("batches")
    assert 0 < searched_again <= (LANES // 2 if is_small else LANES)

    whole = tmp_path / "whole.zarr"
    search(str(store), str(whole), kind, str(tmp_path / "third"))
    assert Stored.open(out).identity == Stored.open(whole).identity
