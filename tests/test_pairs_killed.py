"""A run that is killed, and what the next one does again."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.answers.pairs import pairs_specs
from ooc_graph.layout.stored import Stored
from ooc_graph.session import pair_tasks, pairs, pairs_plan, pairs_stored
from ooc_graph.session.machine import cores
from tests.command_line import LIMIT_S, REPOSITORY, running
from tests.test_pairs_stored import edges, no_room

CHUNK, LANES = 5, 10
TASK = {"in memory": pairs_plan.BATCHES * cores() * LANES, "in the store": LANES}


def search(store: str, out: str, where: str, log: str, kill_at: int | None = None) -> None:
    """Find all pairs with small chunks and batches, and log whose distances were found.

    Parameters
    ----------
    where
        Whether arcs are ``in memory`` or ``in the store``.
    log
        Gets a line for each task when its search ends: places of its sources.
    kill_at
        The process kills itself when so many units are recorded.
    """

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in pairs_specs(*given))

    find, finish, finished = pair_tasks._search, pair_tasks.finish_unit, 0

    def searching(task: Any, places: Any) -> Any:
        found = find(task, places)
        if len(places):
            with Path(log).open("a") as file:
                print(*places.tolist(), file=file)
        return found

    def finishing(*given: Any) -> Any:
        nonlocal finished
        unit = finish(*given)
        finished += 1
        if finished == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return unit

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(pairs, "pairs_specs", specs)
        patch.setattr(pairs_plan, "LANES", (LANES,))
        patch.setattr(pairs_stored, "LANES_STORED", (LANES,))
        patch.setattr(pair_tasks, "_search", searching)
        patch.setattr(pair_tasks, "finish_unit", finishing)
        if where == "in the store":
            stack.enter_context(no_room())
        og.johnson(store, out=out, device="cpu")


def logged(path: Path) -> list[list[int]]:
    return [[int(place) for place in line.split()] for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("where", TASK)
def test_a_killed_run_does_no_more_again_than_the_tasks_that_ran(
    tmp_path: Path, where: str
) -> None:
    store, out, task = tmp_path / "g.zarr", tmp_path / "d.zarr", TASK[where]
    vertices = og.build(edges("int64", 100), store, directed=True).vertices
    # In the middle of a task's chunks.
    kill_at = 3 * task // CHUNK + 1
    first, second = tmp_path / "first", tmp_path / "second"
    given = *map(repr, (str(store), str(out), where, str(first))), str(kill_at)
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
    assert len(units) >= kill_at

    search(str(store), str(out), where, str(second))
    again = [place for places in logged(second) for place in places]
    assert sorted(again) == sorted(set(range(vertices)) - recorded)
    # Each thread had one task, whose chunks were not all recorded.
    tasks_again = [places for places in logged(first) if set(places) & set(again)]
    assert 1 <= len(tasks_again) <= cores()
    assert all(len(places) <= task for places in tasks_again)

    whole = tmp_path / "whole.zarr"
    search(str(store), str(whole), where, os.devnull)
    assert Stored.open(out).identity == Stored.open(whole).identity
