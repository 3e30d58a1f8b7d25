"""Supersteps over the workers of a Dask cluster: the exchange named ``scheduler``.

Each worker holds a set of ranks. A plugin on the worker (`resident`) keeps a postbox for every
open attempt; one task pinned to the worker (`handle`) advances its ranks (`ranks`), and in every
superstep each worker sends one message to every other (`party`), by the transport that reaches it
(`shared_memory`, `messages`). Nothing but counts passes through scheduler or client until the ranks
are done.

A lost worker ends the attempt everywhere. The next begins with its ranks dealt to the workers
there are, at the beginning or where the ranks say that they go on; steps are deterministic and
answers ordered by rank, so the result has the same bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any, Literal

from distributed import Client

from ooc_graph.errors import ClusterLostError, MemoryBudgetError
from ooc_graph.exchange.attempt import Attempt, LostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.handle import Finish, Finished
from ooc_graph.exchange.interface import ExchangeStats
from ooc_graph.exchange.ranks import Made
from ooc_graph.exchange.routing import Placement, Terms, deal, fewest_ranks
from ooc_graph.exchange.worker_states import WorkerState, describe
from ooc_graph.settings import answer_timeout_s, patience_s

ATTEMPTS = 3
"""How often ranks begin, a worker being lost each time."""


def run(
    client: Client,
    make: Callable[..., AbstractContextManager[Made]],
    shards: int,
    *,
    joins: Literal["", "thread", "worker"] = "",
    workers: Sequence[str] | None = None,
    threads: int = 1,
    finish: Finish | None = None,
    renew: Callable[[Any], Any] = lambda make: make,
    note: Callable[[str], None] = lambda _: None,
    leaves: bool = False,
) -> tuple[list[Any], ExchangeStats]:
    """Run one coroutine for every rank on the workers of a Dask cluster; results by rank.

    What a rank, ``make`` or ``finish`` raises ends the run everywhere and is raised here, that of
    the lowest rank first. ClusterLostError: every attempt lost a worker, or none could work for
    longer than the patience. Payloads that `Shared.merge` gets may be views of receive buffers, or
    of other workers' memory: to be read, not kept. Columns of a `Route` have the same dtypes in all
    ranks, also if a rank sends nothing.

    ``make`` is picklable, called on each worker with its ranks, ascending; it returns a context
    manager, in which there is a coroutine for each and what they have in common. Every shard is a
    rank; but if ``make`` ``joins`` shards, there are as few ranks as `fewest_ranks` says, and it is
    also called with their number: one a ``thread``, or one a ``worker`` if all are on one host, for
    ranks that search together by all threads. ``renew`` gives what is sent instead of ``make``,
    asked before each attempt: it may go on from what the last one left. ``workers`` are addresses
    or names of those that may take part, at most one for each shard; None: all. ``threads`` of each
    worker advance its ranks.
    ``finish``, picklable, is called on the worker with each rank, its result and the number of
    ranks; only what it returns travels. After a loss it may be called again. If the client
    ``leaves`` the results, workers keep them, and what comes of each rank is a pair: what
    ``finish`` returned, and Dask's future of its worker's `Finished` with that worker's address.
    ``note`` gets one line if the attempt is lost, or no worker can work for the time being.
    """
    cluster, wait_s = Cluster.of(client), patience_s()
    run_id, losses = uuid.uuid4().hex, list[str]()
    placement, ranks = Placement(), shards
    suspects: set[str] = set()
    for number in count():
        if len(losses) == ATTEMPTS:
            break
        there = _workers(cluster, workers, suspects, wait_s, note)
        if not there:
            states = describe(cluster.look().values())
            losses.append(f"no worker could work for {wait_s:.0f} s: {states}")
            break
        each = 1 if joins == "worker" and _are_near(cluster, there) else threads
        before, ranks = ranks, fewest_ranks(shards, len(there), each) if joins else shards
        if ranks != before:
            placement = {}
        placement = deal(ranks, there, placement)
        terms = Terms(run_id, number, tuple(placement.items()), threads)
        try:
            make = renew(make)
            making = partial(make, ranks=ranks) if joins else make
            attempt = Attempt(cluster, terms, leaves=leaves)
            return _in_order(attempt.run(making, finish), ranks)
        except MemoryBudgetError as error:
            error.lost = "; ".join(losses)
            raise
        except LostError as loss:
            suspects |= loss.workers
            if loss.is_refusal:
                # No process is refused twice: it does not try again.
                note(f"{loss.cause}; the search begins again without")
                continue
            losses.append(loss.cause)
            note(f"a worker was lost ({loss.cause}); the ranks begin again")
    raise ClusterLostError(
        f"stopped after {len(losses)} attempts: " + "; then ".join(losses)
    ) from None


def _are_near(cluster: Cluster, workers: Sequence[str]) -> bool:
    """Whether there are several workers, all on one host."""
    states = cluster.look()
    hosts = {states[address].host for address in workers if address in states}
    return len(workers) > 1 and len(hosts) == 1


def _workers(
    cluster: Cluster,
    wanted: Sequence[str] | None,
    suspects: set[str],
    wait_s: float,
    note: Callable[[str], None],
) -> list[str]:
    """Workers that can work; those that were lost before only if nobody else comes."""
    names = None if wanted is None else {str(name) for name in wanted}

    def choose(states: dict[str, WorkerState]) -> list[str]:
        return [a for a, s in states.items() if names is None or a in names or s.name in names]

    def choose_others(states: dict[str, WorkerState]) -> list[str]:
        return [address for address in choose(states) if address not in suspects]

    first_s = min(wait_s, answer_timeout_s())
    return list(
        cluster.wait_for_workers(choose_others, first_s, note)
        or cluster.wait_for_workers(choose, wait_s - first_s)
    )


def _in_order(outcomes: Sequence[Finished], ranks: int) -> tuple[list[Any], ExchangeStats]:
    values = {
        rank: value if outcome.there is None else (value, outcome.there)
        for outcome in outcomes
        for rank, value in outcome.values.items()
    }
    each = [outcome.stats for outcome in outcomes]
    stats = ExchangeStats(
        supersteps=each[0].supersteps,
        bytes_sent=sum(one.bytes_sent for one in each),
        bytes_shared=sum(one.bytes_shared for one in each),
        links=sum(one.links for one in each),
        links_shared=sum(one.links_shared for one in each),
        seconds=sum(one.seconds for one in each) / len(each),
    )
    return [values[rank] for rank in range(ranks)], stats
