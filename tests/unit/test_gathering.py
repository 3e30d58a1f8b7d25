"""Gatherings in common memory: all ranks know the same of whether all have come."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest

from ooc_graph.kernels.common.meeting import come, gathered, gathering_words, leave

ROUNDS = 200


def attended(words: np.ndarray, rank: int, ranks: int, name: int, chance: random.Random) -> bool:
    """Come late, and maybe leave soon; whether all have come."""
    sleep(chance.random() * 1e-3)
    come(words, rank, name)
    if chance.random() < 0.5 / ranks:
        sleep(chance.random() * 1e-3)
        return bool(leave(words, rank, ranks, name))
    while not (found := gathered(words, ranks, name)):
        pass
    return bool(found > 0)


@pytest.mark.parametrize("ranks", [2, 3, 9])
def test_all_know_the_same(ranks: int) -> None:
    """Of gatherings, each of which begins once all know of the one before."""
    words = np.zeros(gathering_words(ranks), np.int64)
    chances = [random.Random(rank) for rank in range(ranks)]

    between = Barrier(ranks)

    def attend(rank: int) -> list[bool]:
        known = []
        for name in range(1, ROUNDS):
            known.append(attended(words, rank, ranks, name, chances[rank]))
            between.wait()
        return known

    with ThreadPoolExecutor(ranks) as pool:
        known = list(pool.map(attend, range(ranks)))
    assert all(each == known[0] for each in known)
    assert set(known[0]) == {False, True}


def test_who_has_left_is_not_taken_for_one_who_comes() -> None:
    words = np.zeros(gathering_words(2), np.int64)
    come(words, 0, 5)
    assert gathered(words, 2, 5) == 0
    assert not leave(words, 0, 2, 5)
    # The word that says so is that of another gathering by now.
    come(words, 1, 6)
    assert not leave(words, 1, 2, 6)
    come(words, 1, 5)
    assert gathered(words, 2, 5) == 0


def test_who_leaves_too_late_has_come() -> None:
    words = np.zeros(gathering_words(2), np.int64)
    for rank in range(2):
        come(words, rank, 5)
    assert gathered(words, 2, 5) == 1
    assert leave(words, 0, 2, 5)
    assert gathered(words, 2, 5) == 1


def test_who_waits_sleeps() -> None:
    words, rounds = np.zeros(gathering_words(2), np.int64), 200
    slept, between = [0, 0], Barrier(2)

    def attend(rank: int) -> None:
        for name in range(1, rounds):
            come(words, rank, name)
            while not gathered(words, 2, name):
                slept[rank] += 1
            between.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attend, range(2)))
    assert sum(slept) < 3 * rounds
