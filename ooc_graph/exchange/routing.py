"""Sort what ranks send by who owns it, and hand what arrives to its ranks.

Pure functions on host arrays; nothing here knows of workers' addresses or messages. A *seat* is a
rank's position when ranks are listed worker by worker, ascending inside each worker, so that what
one worker gets is one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ooc_graph.exchange.interface import Arrived, Route
from ooc_graph.types import AnyArray, IntArray, owner_of

Item = TypeVar("Item")
Made = TypeVar("Made")
Apply = Callable[[Callable[[Item], Made], Iterable[Item]], Iterable[Made]]


@dataclass(frozen=True)
class Outbound:
    """All that the ranks of one worker send, ordered by seat, then by sending rank.

    Parameters
    ----------
    columns
        The targets, then the columns that travel with them; each (n,).
    counts
        int64 (ranks of all workers, ranks of this worker): entries for each seat from each of
        this worker's ranks, ascending.
    """

    columns: tuple[AnyArray, ...]
    counts: IntArray

    def for_seats(self, first: int, stop: int) -> tuple[tuple[AnyArray, ...], IntArray]:
        """Columns (views) and counts of what goes to the seats ``first:stop``."""
        start = int(self.counts[:first].sum())
        end = start + int(self.counts[first:stop].sum())
        return tuple(column[start:end] for column in self.columns), self.counts[first:stop]


@dataclass(frozen=True)
class Inbound:
    """What one worker sent to the ranks of another.

    Parameters
    ----------
    pieces
        Consecutive row ranges of the columns.
    counts
        int64 (ranks of the receiver, ranks of the sender).
    senders
        The sender's ranks, ascending.
    """

    pieces: Sequence[tuple[AnyArray, ...]]
    counts: IntArray
    senders: Sequence[int]


def seat_of_rank(seated: Sequence[int]) -> AnyArray:
    """Seat of each rank, given the ranks in order of their seats: uint16 or uint32 (ranks,)."""
    # numpy sorts 16-bit keys by radix, in time linear in the entries.
    narrow = len(seated) <= 1 << 16
    return np.argsort(seated).astype(np.uint16 if narrow else np.uint32)


def sort_by_seat(
    routes: Sequence[Route], seat_of_rank: AnyArray, *, apply: Apply[Any, Any] = map
) -> Outbound:
    """Order the entries of a worker's ranks by seat, stable inside each rank.

    Parameters
    ----------
    routes
        One request for each rank of the worker, ascending.
    apply
        ``map``, or an executor's ``map`` if ranks may be sorted by several threads.

    Raises
    ------
    TypeError
        If ranks send columns of different number or dtype, or of a length unlike the targets'.
    """
    _require_same_columns([(route.target, *route.columns) for route in routes])
    sorted_ranks = list(apply(lambda route: _order(route, seat_of_rank), routes))
    counts = np.stack([count for _, count in sorted_ranks], axis=1)
    ends = np.cumsum(counts.ravel()).reshape(counts.shape)
    first = routes[0]
    columns = tuple(
        np.empty(int(ends[-1, -1]), dtype=column.dtype) for column in (first.target, *first.columns)
    )

    def fill(rank: int) -> None:
        stops = ends[:, rank]
        _fill(columns, routes[rank], sorted_ranks[rank][0], stops - counts[:, rank], stops)

    for _ in apply(fill, range(len(routes))):
        pass
    return Outbound(columns, counts)


def _order(route: Route, seat_of_rank: AnyArray) -> tuple[AnyArray, IntArray]:
    shards = len(seat_of_rank)
    seats = seat_of_rank[owner_of(route.target, shards).astype(np.intp)]
    counts = np.bincount(seats, minlength=shards).astype(np.int64)
    return np.argsort(seats, kind="stable"), counts


def _fill(
    columns: Sequence[AnyArray], route: Route, order: AnyArray, starts: IntArray, stops: IntArray
) -> None:
    if not len(order):
        return
    for column, source in zip(columns, (route.target, *route.columns), strict=True):
        ordered = source[order]
        taken = 0
        for seat in np.flatnonzero(stops > starts).tolist():
            start, stop = int(starts[seat]), int(stops[seat])
            column[start:stop] = ordered[taken : taken + stop - start]
            taken += stop - start


def deliver(inbound: Sequence[Inbound]) -> list[Arrived]:
    """Hand each rank of a worker what was sent to it, by ascending sender: views of common arrays.

    Parameters
    ----------
    inbound
        One for every worker, the receiver itself included, in any order. Their ``pieces`` are
        consumed while this copies, so that what arrives is in memory once, not twice.
    """
    everyone = [sender for one in inbound for sender in one.senders]
    order = np.argsort(everyone)
    counts = np.concatenate([one.counts for one in inbound], axis=1)[:, order]
    ends = np.cumsum(counts.ravel()).reshape(counts.shape)
    if len(inbound) == 1 and len(inbound[0].pieces) == 1:
        columns = inbound[0].pieces[0]
    else:
        columns = _merge(inbound, ends - counts, np.sort(everyone))
    stops = ends[:, -1].tolist()
    return [
        Arrived(columns[0][start:stop], tuple(column[start:stop] for column in columns[1:]))
        for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    ]


def _merge(
    inbound: Sequence[Inbound], starts: IntArray, everyone: AnyArray
) -> tuple[AnyArray, ...]:
    _require_same_columns([one.pieces[0] for one in inbound])
    total = sum(int(one.counts.sum()) for one in inbound)
    columns = tuple(np.empty(total, dtype=column.dtype) for column in inbound[0].pieces[0])
    for one in inbound:
        positions = starts[:, np.searchsorted(everyone, one.senders)]
        segments = list(_segments(positions.ravel(), one.counts.ravel()))
        _scatter(columns, list(one.pieces), segments)
    return columns


def _segments(positions: IntArray, lengths: IntArray) -> Iterator[tuple[int, int]]:
    """Yield position and length of runs that go to consecutive positions, empty ones left out."""
    run_start, run_length = 0, 0
    for position, length in zip(positions.tolist(), lengths.tolist(), strict=True):
        if not length:
            continue
        if position == run_start + run_length:
            run_length += length
            continue
        if run_length:
            yield run_start, run_length
        run_start, run_length = position, length
    if run_length:
        yield run_start, run_length


def _scatter(
    columns: Sequence[AnyArray],
    pieces: list[tuple[AnyArray, ...]],
    segments: Sequence[tuple[int, int]],
) -> None:
    """Copy consecutive pieces to the segments' positions, dropping each piece when it is copied."""
    pieces.reverse()
    taken = 0
    for position, length in segments:
        copied = 0
        while copied < length:
            if taken == len(pieces[-1][0]):
                pieces.pop()
                taken = 0
                continue
            step = min(length - copied, len(pieces[-1][0]) - taken)
            for column, piece in zip(columns, pieces[-1], strict=True):
                column[position + copied : position + copied + step] = piece[taken : taken + step]
            copied += step
            taken += step


def _require_same_columns(senders: Sequence[tuple[AnyArray, ...]]) -> None:
    kinds = {tuple(column.dtype for column in columns) for columns in senders}
    if len(kinds) > 1:
        named = "; ".join(sorted(str([str(dtype) for dtype in kind]) for kind in kinds))
        raise TypeError(f"ranks route columns of different dtypes in one superstep: {named}")
    for columns in senders:
        if len({len(column) for column in columns}) > 1:
            lengths = [len(column) for column in columns]
            raise TypeError(f"a rank routes columns of different lengths: {lengths}")
