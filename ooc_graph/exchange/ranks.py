"""The ranks of one process, advanced together superstep by superstep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ooc_graph.exchange import codec, routing
from ooc_graph.exchange.disjoint import Disjoint
from ooc_graph.exchange.interface import (
    Answer,
    Arrived,
    DivergedRanksError,
    Joinable,
    Question,
    Route,
    Share,
    Shared,
    Superstep,
    World,
    summed,
)
from ooc_graph.exchange.parcel import PART_BYTES, Kind, Parcel, Part, cut_arrays, join_arrays
from ooc_graph.types import AnyArray

Made = tuple[Mapping[int, Superstep[Any]], Shared]
Make = Callable[[Sequence[int]], AbstractContextManager[Made]]
Trade = Callable[[Kind, Callable[[int], Sequence[Part]]], Mapping[int, Sequence[Parcel]]]
"""Sends parts to every other process and gives theirs; see `ooc_graph.exchange.party.Party`."""


FEW_BYTES = 1 << 16
"""Largest message with entries that is sent to all other processes alike, in bytes."""
_BOUND_BYTES = 4


class Ranks:
    """Coroutines of one process's ranks, and what they have in common.

    ``ranks_of`` has the ranks of every process, ascending; ``member`` is this one. ``apply`` is
    ``map``, or an executor's ``map`` to advance ranks in several threads. What is sent is coded if
    this process ``codes``, in parts of at most ``part_bytes``; others need not do the same.
    ``common(size)`` gives memory that all processes map, None if they cannot.
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
        common: Callable[[int], AnyArray | None] = lambda _size: None,
    ) -> None:
        self._codes, self._part_bytes = codes, part_bytes
        self._trade, self._ranks_of, self._member = trade, ranks_of, member
        self._shared, self._apply, self._common = shared, apply, common
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
                self._trade(Kind.DONE, lambda _member: _DONE)
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
        lengths, counts = [len(payload) for payload in mine], summed([r.counts for r in questions])
        routes = [question.route for question in questions if question.route is not None]
        sent = self._sorted(routes) if len(routes) == len(questions) else []
        is_filled = questions[0].is_disjoint and self._codes
        payload: Sequence[AnyArray] = []
        if len(self._ranks_of) > 1:
            payload = [
                self._disjoint[rank].filled(array) if is_filled else array
                for rank, question in zip(self._mine, questions, strict=True)
                for array in question.payload
            ]
        joins = all(question.joins for question in questions)
        mail = self._traded(Kind.SHARE, (counts, lengths, is_filled, joins), payload, sent)
        payloads = dict(zip(self._mine, mine, strict=True))
        sums, inbound = [counts], [self._own(sent)] if sent else []
        for member, parcels in mail.items():
            ((counts, lengths, is_filled, others), entries), arrays = self._joined(parcels)
            joins = joins and others
            senders, theirs, start = self._ranks_of[member], [], 0
            for length in lengths:
                theirs.append(tuple(arrays[start : start + length]))
                start += length
            if is_filled:
                both = zip(senders, theirs, strict=True)
                theirs = [(self._disjoint[rank].taken(*words),) for rank, words in both]
            payloads.update(zip(senders, theirs, strict=True))
            sums.append(counts)
            if entries is not None:
                inbound.append(self._inbound(member, entries, arrays[start:]))
        total = summed(sums)
        if any(payloads.values()):
            self._shared.merge([payloads[rank] for rank in sorted(payloads)])
        if joins:
            shared, processes = cast(Joinable, self._shared), len(self._ranks_of)
            memory = self._common(shared.joined_bytes)
            if memory is not None or processes == 1:
                shared.join(memory, self._member, processes)
        if len(inbound) < len(self._ranks_of):
            return [World(total)] * len(questions)
        return [World(total, arrived) for arrived in routing.deliver(inbound)]

    def _route(self, questions: Sequence[Route]) -> list[Arrived]:
        sent = self._sorted(questions)
        inbound = [self._own(sent)]
        for member, parcels in self._traded(Kind.ROUTE, None, (), sent).items():
            (_, entries), columns = self._joined(parcels)
            inbound.append(self._inbound(member, entries, columns))
        return routing.deliver(inbound)

    def _traded(
        self, kind: Kind, note: Any, payload: Sequence[AnyArray], sent: Sequence[routing.Outbound]
    ) -> Mapping[int, Sequence[Parcel]]:
        """Tell all others arrays, with a note, and send them entries; what they tell and send.

        Few entries go to all, if no network is between them: what all get is made and written once,
        and each takes those that are its own.
        """
        packed = self._packed(payload)

        def parts(member: int) -> list[Part]:
            columns, counts = self._for_member(sent, member)
            return self._cut([*packed, *self._packed(columns)], (note, counts))

        columns = [column for one in sent for column in one.columns]
        size = sum(column.nbytes for column in columns)
        size += _BOUND_BYTES * len(sent) * len(self._seat_of_rank)
        if sent and (self._codes or size > FEW_BYTES):
            return self._trade(kind, parts)
        bounds = tuple(one.bounds for one in sent) or None
        alike = self._cut([*packed, *self._packed(columns)], (note, bounds))
        return self._trade(kind, lambda _member: alike)

    def _inbound(
        self,
        member: int,
        entries: list[list[int]] | tuple[list[int], ...],
        columns: Sequence[AnyArray],
    ) -> routing.Inbound:
        """What a worker sent: ``entries`` are counts, or of columns for all the bounds."""
        senders = self._ranks_of[member]
        if isinstance(entries, list):
            return routing.Inbound(tuple(columns), entries, senders)
        width = len(columns) // len(senders)
        sent = [
            routing.Outbound(tuple(columns[at * width : (at + 1) * width]), bounds)
            for at, bounds in enumerate(entries)
        ]
        return routing.Inbound(*self._for_member(sent, self._member), senders)

    def _packed(self, arrays: Sequence[AnyArray]) -> list[codec.Packed]:
        if not self._codes:
            return [codec.Packed(array, False) for array in arrays]
        return list(self._apply(codec.packed, arrays))

    def _cut(self, packed: Sequence[codec.Packed], note: Any) -> list[Part]:
        """Parts of a message, with a note."""
        given = note, [one.is_coded for one in packed] if self._codes else None
        return cut_arrays([one.array for one in packed], given, part_bytes=self._part_bytes)

    def _joined(self, parcels: Sequence[Parcel]) -> tuple[Any, list[AnyArray]]:
        """Undo `_cut`."""
        (note, are_coded), arrays = join_arrays(parcels)
        if are_coded is None:
            return note, arrays
        both = map(codec.Packed, arrays, are_coded)
        return note, list(self._apply(codec.unpacked, both))

    def _sorted(self, routes: Sequence[Route]) -> list[routing.Outbound]:
        return list(
            self._apply(lambda route: routing.sort_by_seat(route, self._seat_of_rank), routes)
        )

    def _for_member(
        self, sent: Sequence[routing.Outbound], member: int
    ) -> tuple[routing.Columns, list[list[int]]]:
        """What the ranks of this process, or of another, send to those of one."""
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


_DONE = cut_arrays(())
_KIND_OF_TYPE: dict[type, Kind] = {Share: Kind.SHARE, Route: Kind.ROUTE, _End: Kind.DONE}


def _advance(step: tuple[Superstep[Any], Answer | None]) -> Question | _End:
    coroutine, answer = step
    try:
        return coroutine.send(answer)
    except StopIteration as stop:
        return _End(stop.value)
