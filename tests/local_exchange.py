"""Ranks in one process: their coroutines are advanced in turn, superstep by superstep.

Nothing is taken on trust between ranks: what one tells another passes through here, so this
exchange is the oracle of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ooc_graph.exchange.interface import (
    Arrived,
    ExchangeStats,
    Question,
    Result,
    Route,
    Share,
    Shared,
    Superstep,
    World,
)
from ooc_graph.types import owner_of


def run(
    coroutines: Sequence[Superstep[Result]], shared: Shared, shards: int
) -> tuple[list[Result], ExchangeStats]:
    """Advance one coroutine for each of ``shards`` ranks to the end.

    Parameters
    ----------
    coroutines
        Not yet started, by ascending rank.
    shared
        What the ranks hold in common; it merges the payloads once a superstep.

    Returns
    -------
    list of Result, ExchangeStats
        What each rank returned. No bytes leave the process.

    Raises
    ------
    RuntimeError
        The ranks do not ask for the same kind of thing, or do not finish together.
    """
    if len(coroutines) != shards:
        raise RuntimeError(f"{len(coroutines)} coroutines for {shards} ranks")
    answers: Sequence[object] = [None] * shards
    supersteps = 0
    while True:
        questions, results = _advance(coroutines, answers)
        if results:
            return results, ExchangeStats(supersteps, 0)
        answers = _answer(questions, shared, shards)
        supersteps += 1


def _advance(
    coroutines: Sequence[Superstep[Result]], answers: Sequence[object]
) -> tuple[list[Question], list[Result]]:
    """Let each rank take its answer: all of their questions, or all of their results."""
    questions: list[Question] = []
    results: list[Result] = []
    for coroutine, answer in zip(coroutines, answers, strict=True):
        try:
            questions.append(coroutine.send(answer))
        except StopIteration as stop:
            results.append(stop.value)
    if questions and results:
        raise RuntimeError(f"{len(results)} ranks finished while {len(questions)} continue")
    return questions, results


def _answer(
    questions: Sequence[Question], shared: Shared, shards: int
) -> list[World] | list[Arrived]:
    shares = [question for question in questions if isinstance(question, Share)]
    if len(shares) == shards:
        return _share(shares, shared)
    if shares:
        raise RuntimeError(f"{len(shares)} of {shards} ranks share while the others route")
    return _route([question for question in questions if isinstance(question, Route)], shards)


def _share(shares: Sequence[Share], shared: Shared) -> list[World]:
    if len({(len(share.counts), len(share.payload)) for share in shares}) != 1:
        raise RuntimeError("the ranks share different numbers of counts or arrays")
    counts = tuple(map(sum, zip(*(share.counts for share in shares), strict=True)))
    if shares[0].payload:
        shared.merge([share.payload for share in shares])
    routes = [share.route for share in shares if share.route is not None]
    if len(routes) < len(shares):
        return [World(counts)] * len(shares)
    return [World(counts, arrived) for arrived in _route(routes, len(shares))]


def _route(routes: Sequence[Route], shards: int) -> list[Arrived]:
    sent = [split_by_owner(route, shards) for route in routes]
    return [gather([parts[rank] for parts in sent]) for rank in range(shards)]


def split_by_owner(route: Route, shards: int) -> list[Arrived]:
    """Part a `Route` by the rank that owns each target, in the order sent."""
    owner = owner_of(route.target, shards)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(shards + 1))
    parts = [order[a:b] for a, b in pairwise(bounds)]
    return [
        Arrived(route.target[part], tuple(column[part] for column in route.columns))
        for part in parts
    ]


def gather(parts: Sequence[Arrived]) -> Arrived:
    """Join what a rank receives, by ascending sender."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return Arrived(
        np.concatenate([part.target for part in parts]),
        tuple(np.concatenate(column) for column in columns),
    )
