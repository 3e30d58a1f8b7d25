"""A run that is killed, and what the next one does again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import TOGETHER, answer_specs
from ooc_graph.kernels.common.completion import raise_if_cancelled
from ooc_graph.kernels.cpu.many import bfs_search as many_bfs_search
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.kernels.cpu.many import search as many_search
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cpu.many.choice import side_by_side
from ooc_graph.kernels.cpu.store import one_by_one as tier_singly
from ooc_graph.kernels.cpu.store.johnson import TierJohnson
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache, process, this_process
from ooc_graph.search import many
from ooc_graph.strategies.many import dividing, on_disk
from ooc_graph.strategies.many import tasks as many_tasks
from tests.command_line import LIMIT_S, REPOSITORY, running
from tests.test_pairs_stored import edges, no_room

CHUNK, LANES = 8, 16
THREADS, BATCHES = 2, 8
KILL_AT = 11
"""Chunks that are recorded, or just being: those of six batches, but for one. In memory a task has
more."""
SIGNED, HUBS, THIN = "signed", "hubs", "thin"
KINDS: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "distances": (og.johnson, SIGNED, {}),
    "parents": (og.johnson, SIGNED, {"parents": True}),
    "sums": (og.johnson, SIGNED, {"reduce": "sum"}),
    "distances, hubs": (og.johnson, HUBS, {}),
    "distances, thin": (og.johnson, THIN, {}),
    "levels": (og.multi_source_bfs, HUBS, {}),
    "levels, thin": (og.multi_source_bfs, THIN, {}),
}
"""Out of the store hubs, long thin graphs and levels are searched one by one."""


def search(
    store: str, out: str, where: str, what: str, log: str, kill_at: int | None = None
) -> None:
    """Find all pairs with small chunks and batches, and log whose distances were found.

    Parameters
    ----------
    where
        Whether arcs are ``in memory`` or ``in the store``.
    what
        One of `KINDS`.
    log
        Gets a line for each task when its search ends: places of its sources. A file beside it gets
        a character for each source when its search begins.
    kill_at
        The process kills itself when so many units are recorded, or are just being, and it is
        about to record another one.
    """

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in answer_specs(*given))

    solve, finish, finished = many_tasks._search, many_tasks.write_checkpoint, 0
    find, _, options = KINDS[what]
    counting, rows = threading.Lock(), og.open(store).rows

    def searching(task: Any, places: Any, *rest: Any) -> Any:
        found = solve(task, places, *rest)
        if len(places):
            with Path(log).open("a") as file:
                print(*places.tolist(), file=file)
        return found

    def finishing(*given: Any) -> Any:
        nonlocal finished
        with counting:
            if finished == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            finished += 1
        return finish(*given)

    def begin(sources: int) -> None:
        with Path(log).with_suffix(".begun").open("a") as file:
            file.write("." * sources)

    def beginning() -> None:
        begin(1)
        raise_if_cancelled()

    def batching(batch: Any, *given: Any) -> Any:
        begin(LANES)
        return batch(*given)

    def settling(settle: Any) -> Any:
        def call(self: Any, state: Any, sources: Any) -> Any:
            # Not those by which it is compiled.
            begin(len(sources) if self.vertices == rows else 0)
            return settle(self, state, sources)

        return call

    def one_by_one(threads: int, count: int, do: Callable[[int, int], None]) -> None:
        def done(thread: int, place: int) -> None:
            begin(1)
            do(thread, place)

        side_by_side(threads, count, done)

    def giving_up(_: CpuManyBfs, run: Any, *__: Any) -> np.ndarray:
        return np.ones(len(run.sources), np.bool_)

    # What is compiled is tried, which is no batch of the run.
    find(store, og.open(store).original_ids()[:1], device="cpu")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(many, "answer_specs", specs)
        patch.setattr(dividing, "BATCH_SIZES", (LANES,))
        patch.setattr(dividing, "TASK_BATCHES", BATCHES)
        # Nothing but batches of the task.
        patch.setattr(many_choice.Chooser, "_look", lambda *_: 0)
        patch.setattr(many_search, "PRUNED_FROM", 1 << 30)
        for module in (many_search, many_bfs_search):
            patch.setattr(module, "search_batch", partial(batching, module.search_batch))
        patch.setattr(tier_singly, "raise_if_cancelled", beginning)
        patch.setattr(TierJohnson, "_settle", settling(TierJohnson._settle))
        patch.setattr(many_choice, "side_by_side", one_by_one)
        if what.endswith(THIN):
            patch.setattr(many_choice, "CACHED_BYTES", 0)
            # As of batches that were given up; each of them might be, later or sooner.
            patch.setattr(CpuManyBfs, "_batches", giving_up)
        # Whether they pay or not.
        patch.setattr(many_bfs_search, "WORTH", 0)
        patch.setattr(dividing, "BFS_FACTOR", 1)
        patch.setattr(this_process, "cores", lambda: THREADS)
        patch.setattr(process, "cores", lambda: THREADS)
        patch.setattr(process, "_devices", {})
        patch.setattr(on_disk, "BATCH_SIZES", (LANES,))
        for hops in (False, True):
            patch.setitem(TOGETHER, hops, LANES)
        patch.setattr(many_tasks, "_search", searching)
        patch.setattr(many_tasks, "write_checkpoint", finishing)
        if where == "in the store":
            stack.enter_context(no_room())
        engine_cache.release()
        find(store, out=out, device="cpu", **options)
        engine_cache.release()


def graph_of(what: str, path: Path) -> og.Graph:
    """The graph of one of `KINDS`, of some hundreds of vertices."""
    kind = KINDS[what][1]
    if kind != THIN:
        given = edges("float64", 100) if kind == SIGNED else edges("float32", 0, hubs=True)
        return og.build(given, path, directed=True)
    at = np.arange(600).reshape(10, 60)
    ends = [
        np.append(*map(np.ravel, pair)) for pair in ((at[1:], at[:, 1:]), (at[:-1], at[:, :-1]))
    ]
    weight = np.random.default_rng(4).integers(1, 100, len(ends[0])).astype(np.float32)
    return og.build((*ends, weight), path, directed=True)


def logged(path: Path) -> list[list[int]]:
    return [[int(place) for place in line.split()] for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "what"),
    [
        *(("in memory", what) for what in KINDS if what != "distances, hubs"),
        *(("in the store", what) for what in KINDS if what not in ("parents", "sums")),
    ],
)
def test_a_killed_run_does_no_more_again_than_what_was_not_recorded(
    tmp_path: Path, where: str, what: str
) -> None:
    store, out = tmp_path / "g.zarr", tmp_path / "d.zarr"
    vertices = graph_of(what, store).vertices
    first, second = tmp_path / "first", tmp_path / "second"
    given = *map(repr, (str(store), str(out), where, what, str(first))), str(KILL_AT)
    code = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from tests.test_pairs_killed import search
search({", ".join(given)})
"""
    with running(["-c", code]) as process:
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == -signal.SIGKILL, said
    assert not out.exists()
    (left,) = tmp_path.glob("d.zarr.partial-*")
    units = {int(path.stem) for path in (left / "spill/done").glob("*.json")}
    recorded = {place for unit in units for place in range(unit * CHUNK, (unit + 1) * CHUNK)}
    # Others may have been in the middle of a record.
    assert KILL_AT - (LANES // CHUNK if where == "in the store" else 1) <= len(units) <= KILL_AT

    search(str(store), str(out), where, what, str(second))
    again = [place for places in logged(second) for place in places]
    assert sorted(again) == sorted(set(range(vertices)) - recorded)
    # A batch for each thread that searches by itself; else one.
    searched_again = first.with_suffix(".begun").stat().st_size - len(recorded)
    assert 0 < searched_again <= LANES * (THREADS if where == "in memory" else 1)

    whole = tmp_path / "whole.zarr"
    search(str(store), str(whole), where, what, str(tmp_path / "third"))
    assert Stored.open(out).identity == Stored.open(whole).identity
