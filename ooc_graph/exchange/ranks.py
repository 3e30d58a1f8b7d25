"""The ranks of one process, advanced together superstep by superstep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ooc_graph.exchange import codec, routing
from ooc_graph.exchange.disjoint import Disjoint
from ooc_graph.exchange.interface import (
    Answer,
    Arrived,
    DivergedRanksError,
    Question,
    Route,
    Share,
    Shared,
    Superstep,
    World,
)
from ooc_graph.exchange.parcel import PART_BYTES, Kind, Parcel, Part, cut_arrays, join_arrays
from ooc_graph.types import AnyArray, IntArray

Made = tuple[Mapping[int, Superstep[Any]], Shared]
Make = Callable[[Sequence[int]], AbstractContextManager[Made]]
Trade = Callable[[Kind, Callable[[int], Sequence[Part]]], Mapping[int, Sequence[Parcel]]]
"""Sends parts to every other process and gives theirs; see `ooc_graph.exchange.party.Party`."""


class Ranks:
    """Coroutines of one process's ranks, and what they have in common.

    ``ranks_of`` has the ranks of every process, ascending; ``member`` is this one. ``apply`` is
    ``map``, or an executor's ``map`` to advance ranks in several threads. What is sent is coded if
    this process ``codes``, in parts of at most ``part_bytes``; others need not do the same.
    """

    def __init__(
        self,
        trade: Trade,
        ranks_of: Sequence[Sequence[int]],
        member: int,
        coroutines: Mapping[int, Superstep[Any]],
        shared: Shared,
        *,
        apply: routing.Apply[Any, Any] = map,
        codes: bool = True,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._codes, self._part_bytes = codes, part_bytes
        self._trade, self._ranks_of, self._member = trade, ranks_of, member
        self._shared, self._apply = shared, apply
        self._mine = ranks_of[member]
        self._coroutines = [coroutines[rank] for rank in self._mine]
        self._seat_of_rank = routing.seat_of_rank([rank for ranks in ranks_of for rank in ranks])
        ends = np.cumsum([0, *map(len, ranks_of)]).tolist()
        self._seats = list(pairwise(ends))
        self._disjoint: defaultdict[int, Disjoint] = defaultdict(Disjoint)
        self._superstep = 0

    def run(self) -> dict[int, Any]:
        """Advance all ranks to their end; results by rank."""
        answers: Sequence[Answer | None] = [None] * len(self._mine)
        while True:
            questions = list(self._apply(_advance, zip(self._coroutines, answers, strict=True)))
            kind = self._kind_of(questions)
            if kind is Kind.SHARE:
                answers = self._share(questions)
            elif kind is Kind.ROUTE:
                answers = self._route(questions)
            else:
                self._trade(Kind.DONE, lambda _member: cut_arrays(()))
                return {r: end.result for r, end in zip(self._mine, questions, strict=True)}
            self._superstep += 1

    def close(self) -> None:
        """End coroutines that are not at their end, so that their cleaning up runs now."""
        for coroutine in self._coroutines:
            coroutine.close()

    def _kind_of(self, questions: Sequence[Question | _End]) -> Kind:
        kinds = [_KIND_OF_TYPE[type(question)] for question in questions]
        if len(set(kinds)) > 1:
            asked = {r: kind.value for r, kind in zip(self._mine, kinds, strict=True)}
            raise DivergedRanksError(f"superstep {self._superstep}: ranks ask for {asked}")
        return kinds[0]

    def _share(self, questions: Sequence[Share]) -> list[World]:
        mine = [question.payload for question in questions]
        lengths, counts = [len(payload) for payload in mine], _sum([r.counts for r in questions])
        routes = [question.route for question in questions if question.route is not None]
        sent = self._sorted(routes) if len(routes) == len(questions) else []
        payload_arrays: Sequence[codec.Packed] = []
        if len(self._ranks_of) > 1:
            sendings = [
                self._disjoint[rank].filled(array)
                if question.is_disjoint and self._codes
                else array
                for rank, question in zip(self._mine, questions, strict=True)
                for array in question.payload
            ]
            payload_arrays = self._packed(sendings)

        def parts(member: int) -> list[Part]:
            columns, entries = self._for_member(sent, member) if sent else ((), None)
            arrays = [*payload_arrays, *self._packed(columns)]
            return self._cut(arrays, (counts, lengths, entries))

        alike = self._cut(payload_arrays, (counts, lengths, None))
        mail = self._trade(Kind.SHARE, parts if sent else lambda _member: alike)
        payloads = dict(zip(self._mine, mine, strict=True))
        sums, inbound = [counts], [self._own(sent)] if sent else []
        for member, parcels in mail.items():
            (counts, lengths, entries), arrays = self._joined(parcels)
            rest, senders = iter(arrays), self._ranks_of[member]
            theirs = [tuple(islice(rest, length)) for length in lengths]
            if questions[0].is_disjoint:
                both = zip(senders, theirs, strict=True)
                theirs = [(self._disjoint[rank].taken(*arrays),) for rank, arrays in both]
            payloads.update(zip(senders, theirs, strict=True))
            sums.append(counts)
            if entries is not None:
                inbound.append(routing.Inbound(tuple(rest), entries, senders))
        total = _sum(sums)
        if any(payloads.values()):
            self._shared.merge([payloads[rank] for rank in sorted(payloads)])
        if len(inbound) < len(self._ranks_of):
            return [World(total)] * len(questions)
        return [World(total, arrived) for arrived in routing.deliver(inbound)]

    def _route(self, questions: Sequence[Route]) -> list[Arrived]:
        sent = self._sorted(questions)

        def parts(member: int) -> list[Part]:
            columns, counts = self._for_member(sent, member)
            return self._cut(self._packed(columns), counts)

        inbound = [self._own(sent)]
        for member, parcels in self._trade(Kind.ROUTE, parts).items():
            counts, columns = self._joined(parcels)
            inbound.append(routing.Inbound(tuple(columns), counts, self._ranks_of[member]))
        return routing.deliver(inbound)

    def _packed(self, arrays: Sequence[AnyArray]) -> list[codec.Packed]:
        if not self._codes:
            return [codec.Packed(array, False) for array in arrays]
        return list(self._apply(codec.packed, arrays))

    def _cut(self, packed: Sequence[codec.Packed], note: Any) -> list[Part]:
        """Parts of a message, with a note."""
        given = note, [one.is_coded for one in packed]
        return cut_arrays([one.array for one in packed], given, part_bytes=self._part_bytes)

    def _joined(self, parcels: Sequence[Parcel]) -> tuple[Any, list[AnyArray]]:
        """Undo `_cut`."""
        (note, are_coded), arrays = join_arrays(parcels)
        both = map(codec.Packed, arrays, are_coded)
        return note, list(self._apply(codec.unpacked, both))

    def _sorted(self, routes: Sequence[Route]) -> list[routing.Outbound]:
        return list(
            self._apply(lambda route: routing.sort_by_seat(route, self._seat_of_rank), routes)
        )

    def _for_member(
        self, sent: Sequence[routing.Outbound], member: int
    ) -> tuple[routing.Columns, IntArray]:
        """What the ranks of this process send to those of another."""
        return routing.for_seats(sent, *self._seats[member])

    def _own(self, sent: Sequence[routing.Outbound]) -> routing.Inbound:
        """What the ranks of this process send each other."""
        own, counts = self._for_member(sent, self._member)
        return routing.Inbound(own, counts, self._mine)


def run_in_process(coroutines: Mapping[int, Superstep[Any]], shared: Shared) -> list[Any]:
    """Advance all ranks of a graph in this process, to their end; results by rank."""
    everyone = range(len(coroutines))
    with closing(Ranks(lambda *_: {}, [everyone], 0, coroutines, shared)) as ranks:
        results = ranks.run()
    return [results[rank] for rank in everyone]


class _End:
    def __init__(self, result: Any) -> None:
        self.result = result


_KIND_OF_TYPE: dict[type, Kind] = {Share: Kind.SHARE, Route: Kind.ROUTE, _End: Kind.DONE}


def _advance(step: tuple[Superstep[Any], Answer | None]) -> Question | _End:
    coroutine, answer = step
    try:
        return coroutine.send(answer)
    except StopIteration as stop:
        return _End(stop.value)


def _sum(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if len({len(one) for one in counts}) > 1:
        raise DivergedRanksError(f"ranks share different numbers of counts: {list(counts)}")
    return tuple(sum(int(value) for value in column) for column in zip(*counts, strict=True))
