"""Calls on clusters that are harmed at random: right bytes or a package error, and in time.

Every round draws, from a seed that its name shows, a call, what is done to the cluster meanwhile,
and when. Limits are shorter than a user's, so that an end is seen sooner.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest

from ooc_graph.errors import ClusterLostError
from tests.hostile.arena import HARMS, Arena, arena_of
from tests.hostile.works import Works

LIMITS = {"ooc-graph.answer-timeout": "2s", "ooc-graph.patience": "6s"}
# The patience, some answers, one or two restarts of workers, and the work itself.
LONGEST_S = 75.0


def play(seed: int, works: Works, folder: Path, rounds: int = 6) -> None:
    """Some rounds on one cluster; a new one if it cannot be brought back."""
    draw = random.Random(seed)
    left = rounds
    while left:
        workers, with_nanny = draw.randint(1, 3), draw.random() < 0.7
        with arena_of(folder / f"arena {left}", workers, with_nanny=with_nanny) as arena:
            while left:
                left -= 1
                out = folder / f"round {left}"
                play_round(seed, draw, arena, works, out)
                if not arena.heal():
                    break
                arena.until_clean()
                again(seed, arena, works, out)


def play_round(seed: int, draw: random.Random, arena: Arena, works: Works, out: Path) -> None:
    call, harm = draw.choice(sorted(works.calls)), draw.choice(sorted(HARMS))
    delay_s = draw.choice([0.0, 0.1, 0.3, 1.0]) * draw.random()
    said = f"seed {seed}: {call!r}, {harm!r} after {delay_s:.2f} s, {arena.size} workers"
    print(f"{said}{'' if arena.with_nanny else ' without nannies'}", end=": ", flush=True)
    out.mkdir()
    (out / "call").write_text(call)
    client = arena.connect()

    def do_harm() -> None:
        time.sleep(delay_s)
        HARMS[harm](arena, draw, client)

    harming = threading.Thread(target=_quietly(do_harm), daemon=True)
    begun_s = time.monotonic()
    harming.start()
    try:
        ended = works.calls[call](client, out)
        assert ended == works.right[call], f"{said}: wrong bytes"
        ended = "right"
    except ClusterLostError as error:
        ended = f"{type(error).__name__}: {error}"
    taken_s = time.monotonic() - begun_s
    print(f"{ended} ({taken_s:.1f} s)", flush=True)
    assert taken_s < LONGEST_S, f"{said}: {taken_s:.0f} s"
    harming.join(LONGEST_S)
    arena.heal_signals()
    client.close(timeout=5)
    wrong = [path.name for path in out.iterdir() if path.suffix == ".lock"]
    assert not wrong, f"{said}: {wrong} left"


def _quietly(function):  # type: ignore[no-untyped-def]
    def called() -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 -- what is harmed may fail to take it
            print(f"[{type(error).__name__}]", end=" ", flush=True)

    return called


def again(seed: int, arena: Arena, works: Works, out: Path) -> None:
    """The same call, unharmed: it uses what is left, or begins anew."""
    call = (out / "call").read_text()
    if (out / "g.zarr").exists() or (out / "r.zarr").exists():
        return
    with arena.connect() as client:
        assert works.calls[call](client, out) == works.right[call], f"seed {seed}, again: {call}"
    names = {path.name for path in out.iterdir()} - {
        "call",
        "g.zarr",
        "r.zarr",
        "g.run.json",
        "answers",
    }
    assert not names, f"seed {seed}: {names} left"


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with dask.config.set(LIMITS):
        yield


@pytest.mark.timeout(1200)
def test_some_rounds(works: Works, tmp_path: Path) -> None:
    play(0, works, tmp_path, rounds=2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(50))
def test_many_rounds(seed: int, works: Works, tmp_path: Path) -> None:
    play(seed, works, tmp_path)
