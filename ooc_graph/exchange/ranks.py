"""The ranks that one worker holds, advanced together through an attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ooc_graph.exchange.interface import (
    Answer,
    Arrived,
    Request,
    Route,
    Share,
    Shared,
    Superstep,
    World,
)
from ooc_graph.exchange.parcel import Kind, Parcel, cut_arrays, cut_rows, join_arrays
from ooc_graph.exchange.party import DivergedRanksError, Party
from ooc_graph.exchange.routing import Apply, Inbound, deliver, seat_of_rank, sort_by_seat
from ooc_graph.types import AnyArray

Make = Callable[[Sequence[int]], tuple[Mapping[int, Superstep[Any]], Shared]]
OnCounts = Callable[[int, tuple[int, ...]], None]


class Ranks:
    """Coroutines of one worker's ranks, and what they have in common.

    Parameters
    ----------
    apply
        ``map``, or an executor's ``map`` to advance ranks in several threads.
    on_counts
        Called with superstep and summed counts after each `Share`.
    """

    def __init__(
        self,
        party: Party,
        coroutines: Mapping[int, Superstep[Any]],
        shared: Shared,
        *,
        apply: Apply[Any, Any] = map,
        on_counts: OnCounts | None = None,
    ) -> None:
        self._party, self._shared = party, shared
        self.apply, self._on_counts = apply, on_counts
        plan = party.plan
        self._mine = plan.party[party.member][1]
        self._coroutines = [coroutines[rank] for rank in self._mine]
        self._seat_of_rank = seat_of_rank([rank for _, ranks in plan.party for rank in ranks])
        sizes = [len(ranks) for _, ranks in plan.party]
        self._first_seat = np.concatenate([[0], np.cumsum(sizes)]).tolist()

    def run(self) -> dict[int, Any]:
        """Advance all ranks to their end; results by rank."""
        answers: Sequence[Answer | None] = [None] * len(self._mine)
        results: dict[int, Any] = {}
        while not results:
            requests = list(self.apply(_advance, zip(self._coroutines, answers, strict=True)))
            kind = self._kind_of(requests)
            if kind is Kind.SHARE:
                answers = [self._share(requests)] * len(self._mine)
            elif kind is Kind.ROUTE:
                answers = self._route(requests)
            else:
                self._party.trade(Kind.DONE, lambda _member: cut_arrays(()))
                results = {r: end.result for r, end in zip(self._mine, requests, strict=True)}
        return results

    def close(self) -> None:
        """End coroutines that are not at their end, so that their cleaning up runs now."""
        for coroutine in self._coroutines:
            coroutine.close()

    def _kind_of(self, requests: Sequence[Request | _End]) -> Kind:
        kinds = {_KIND_OF_TYPE[type(request)] for request in requests}
        if len(kinds) > 1:
            asked = {
                r: _KIND_OF_TYPE[type(q)].value for r, q in zip(self._mine, requests, strict=True)
            }
            raise DivergedRanksError(f"superstep {self._party.supersteps}: ranks ask for {asked}")
        return kinds.pop()

    def _share(self, requests: Sequence[Share]) -> World:
        mine = [request.payload for request in requests]
        note = (_sum([r.counts for r in requests]), [len(payload) for payload in mine])
        parts = cut_arrays([array for payload in mine for array in payload], note)
        mail = self._party.trade(Kind.SHARE, lambda _member: parts)
        payloads = dict(zip(self._mine, mine, strict=True))
        sums = [note[0]]
        for member, parcels in mail.items():
            counts, theirs = _open_share(parcels)
            sums.append(counts)
            payloads.update(zip(self._party.plan.party[member][1], theirs, strict=True))
        world = World(_sum(sums))
        if any(payloads.values()):
            self._shared.merge([payloads[rank] for rank in sorted(payloads)])
        if self._on_counts is not None:
            self._on_counts(self._party.supersteps - 1, world.counts)
        return world

    def _route(self, requests: Sequence[Route]) -> list[Arrived]:
        sent = sort_by_seat(requests, self._seat_of_rank, apply=self.apply)

        def for_member(member: int) -> tuple[tuple[AnyArray, ...], AnyArray]:
            return sent.for_seats(self._first_seat[member], self._first_seat[member + 1])

        mail = self._party.trade(Kind.ROUTE, lambda member: cut_rows(*for_member(member)))
        own, counts = for_member(self._party.member)
        inbound = [Inbound([own], counts, self._mine)]
        for member, parcels in mail.items():
            senders = self._party.plan.party[member][1]
            inbound.append(Inbound([p.arrays for p in parcels], parcels[0].header, senders))
        return deliver(inbound)


class _End:
    def __init__(self, result: Any) -> None:
        self.result = result


_KIND_OF_TYPE: dict[type, Kind] = {Share: Kind.SHARE, Route: Kind.ROUTE, _End: Kind.DONE}


def _advance(step: tuple[Superstep[Any], Answer | None]) -> Request | _End:
    coroutine, answer = step
    try:
        return coroutine.send(answer)
    except StopIteration as stop:
        return _End(stop.value)


def _sum(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if len({len(one) for one in counts}) > 1:
        raise DivergedRanksError(f"ranks share different numbers of counts: {list(counts)}")
    return tuple(sum(int(value) for value in column) for column in zip(*counts, strict=True))


def _open_share(
    parcels: Sequence[Parcel],
) -> tuple[tuple[int, ...], list[tuple[AnyArray, ...]]]:
    (counts, lengths), arrays = join_arrays(parcels)
    rest = iter(arrays)
    return counts, [tuple(next(rest) for _ in range(length)) for length in lengths]
