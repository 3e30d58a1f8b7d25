"""The local exchange moves what it should, and notices ranks that disagree."""

from __future__ import annotations

import numpy as np
import pytest

from ooc_graph.exchange.interface import Route, Share
from ooc_graph.types import owner_of
from tests import local_exchange
from tests.toy_ranks import SHARDS, expected_arrival, make_sharing_and_routing


class Log:
    def __init__(self):
        self.merged = []

    def merge(self, payloads):
        self.merged.append([tuple(a.tolist() for a in payload) for payload in payloads])


def test_counts_are_summed_and_payloads_merged_once_in_order():
    def rank(number):
        world = yield Share((number, 1), (np.array([number]),))
        again = yield Share((world.counts[0],))
        return number, world.counts, again.counts

    log = Log()
    results, stats = local_exchange.run([rank(r) for r in range(4)], log, 4)
    assert results == [(r, (6, 4), (24,)) for r in range(4)]
    assert log.merged == [[([0],), ([1],), ([2],), ([3],)]]
    assert (stats.supersteps, stats.bytes_sent) == (2, 0)


def test_entries_reach_their_owners_by_ascending_sender():
    targets = np.random.default_rng(0).integers(0, 20_000, (4, 300))

    def rank(number):
        arrived = yield Route(targets[number], (np.full(300, number), np.arange(300)))
        return arrived

    results, _ = local_exchange.run([rank(r) for r in range(4)], Log(), 4)
    for owner, arrived in enumerate(results):
        assert (owner_of(arrived.target, 4) == owner).all()
        sender, position = arrived.columns
        assert (np.diff(sender) >= 0).all()
        assert (targets[sender, position] == arrived.target).all()
    assert sum(len(arrived.target) for arrived in results) == 1200


def test_entries_come_along_with_counts_if_all_ranks_send_some():
    coroutines, _ = make_sharing_and_routing(range(SHARDS)).enter_result
    results, stats = local_exchange.run([coroutines[r] for r in range(SHARDS)], Log(), SHARDS)
    for rank, got in enumerate(results):
        assert got == [((28,), expected_arrival(rank, 0, 200, SHARDS)), ((28,), None)]
    assert stats.supersteps == 2


def share():
    yield Share((1,))


def route():
    yield Route(np.zeros(1, np.uint32))


def twice():
    yield Share((1,))
    yield Share((1,))


def wide():
    yield Share((1, 2))


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((share, route), "share while the others route"),
        ((share, twice), "finished while"),
        ((share, wide), "different numbers"),
    ],
)
def test_ranks_that_disagree_are_named(ranks, words):
    with pytest.raises(RuntimeError, match=words):
        local_exchange.run([rank() for rank in ranks], Log(), 2)


def test_every_rank_has_a_coroutine():
    with pytest.raises(RuntimeError, match="1 coroutines for 2 ranks"):
        local_exchange.run([share()], Log(), 2)
