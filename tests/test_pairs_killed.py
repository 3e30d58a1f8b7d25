"""A run that is killed, and what the next one does again."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.answers.pairs import pairs_specs
from ooc_graph.kernels import many_choice, many_search
from ooc_graph.layout.stored import Stored
from ooc_graph.session import here, pair_tasks, pairs, pairs_plan, pairs_stored, place, resident
from tests.command_line import LIMIT_S, REPOSITORY, running
from tests.test_pairs_stored import edges, no_room

CHUNK, LANES = 5, 10
THREADS, BATCHES = 2, 8
TASK = {"in memory": BATCHES * THREADS * LANES, "in the store": LANES}
SEARCHED = 6
"""Batches in memory that a run which is to be killed searches; its first task has more."""
OPTIONS: dict[str, dict[str, Any]] = {
    "distances": {},
    "parents": {"parents": True},
    "sums": {"reduce": "sum"},
}


def search(
    store: str, out: str, where: str, what: str, log: str, kill_at: int | None = None
) -> None:
    """Find all pairs with small chunks and batches, and log whose distances were found.

    Parameters
    ----------
    where
        Whether arcs are ``in memory`` or ``in the store``.
    what
        One of `OPTIONS`.
    log
        Gets a line for each task when its search ends: places of its sources.
    kill_at
        The process kills itself when so many units are recorded, or are just being, and it is
        about to record another one.
    """

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in pairs_specs(*given))

    find, finish, finished = pair_tasks._search, pair_tasks.finish_unit, 0
    batch, begun, counting = many_search.search_batch, 0, threading.Lock()

    def searching(task: Any, places: Any, *rest: Any) -> Any:
        found = find(task, places, *rest)
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

    def batching(*given: Any) -> Any:
        nonlocal begun
        with counting:
            begun += 1
            is_last = kill_at is not None and begun > SEARCHED
        if is_last:
            # Until the process is killed.
            threading.Event().wait()
        return batch(*given)

    # What is compiled is tried, which is no batch of the run.
    og.johnson(store, og.open(store).original_ids()[:1], device="cpu")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(pairs, "pairs_specs", specs)
        patch.setattr(pairs_plan, "LANES", (LANES,))
        patch.setattr(pairs_plan, "BATCHES", BATCHES)
        # Nothing but batches of the task.
        patch.setattr(many_choice.Chooser, "_try", lambda *_: 0)
        patch.setattr(many_search, "PRUNED_FROM", 1 << 30)
        patch.setattr(many_search, "search_batch", batching)
        patch.setattr(place, "cores", lambda: THREADS)
        patch.setattr(here, "cores", lambda: THREADS)
        patch.setattr(here, "_devices", {})
        patch.setattr(pairs_stored, "LANES_STORED", (LANES,))
        patch.setattr(pair_tasks, "_search", searching)
        patch.setattr(pair_tasks, "finish_unit", finishing)
        if where == "in the store":
            stack.enter_context(no_room())
        resident.release()
        og.johnson(store, out=out, device="cpu", **OPTIONS[what])
        resident.release()


def logged(path: Path) -> list[list[int]]:
    return [[int(place) for place in line.split()] for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "what"),
    [*(("in memory", what) for what in OPTIONS), ("in the store", "distances")],
)
def test_a_killed_run_does_no_more_again_than_what_was_not_recorded(
    tmp_path: Path, where: str, what: str
) -> None:
    store, out, task = tmp_path / "g.zarr", tmp_path / "d.zarr", TASK[where]
    vertices = og.build(edges("float64", 100), store, directed=True).vertices
    # In the middle of a task's chunks; in memory in that of its search, too.
    kill_at = SEARCHED * LANES // CHUNK - 1
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    given = *map(repr, (str(store), str(out), where, what, str(first))), str(kill_at)
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
    assert kill_at - (THREADS - 1) <= len(units) <= kill_at

    search(str(store), str(out), where, what, str(second))
    again = [place for places in logged(second) for place in places]
    assert sorted(again) == sorted(set(range(vertices)) - recorded)
    tasks = logged(first)
    if where == "in memory":
        # The search of the first one was not over.
        assert not tasks
    else:
        # Each thread had one task, whose chunks were not all recorded.
        tasks_again = [places for places in tasks if set(places) & set(again)]
        assert 1 <= len(tasks_again) <= THREADS
        assert all(len(places) <= task for places in tasks_again)

    whole = tmp_path / "whole.zarr"
    search(str(store), str(whole), where, what, os.devnull)
    assert Stored.open(out).identity == Stored.open(whole).identity
