"""Deal ranks to workers, sort what ranks send by who owns it, and hand what arrives to its ranks.

Pure functions; those on host arrays know nothing of workers' addresses or messages. A *seat* is a
rank's position when ranks are listed worker by worker, ascending inside each worker, so that what
a rank sends to one worker is one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, islice, pairwise
from typing import TypeVar

import numpy as np

from ooc_graph.exchange.doors import Address
from ooc_graph.exchange.interface import Arrived, Route
from ooc_graph.exchange.seat_loops import order_by_seat
from ooc_graph.types import AnyArray

Placement = dict[str, tuple[int, ...]]


def deal(shards: int, workers: Iterable[str], previous: Mapping[str, Sequence[int]]) -> Placement:
    """Deal ranks evenly to workers; who had a rank in the attempt before keeps it.

    Without ``previous``, ranks come in consecutive ranges, workers in order of their addresses,
    so that the same workers get the same ranks in every run and find their loaded shards again.
    There is at least one worker; those beyond the number of ranks are left out.
    """
    chosen = sorted(workers, key=lambda worker: (worker not in previous, worker))[:shards]
    smaller, larger = divmod(shards, len(chosen))
    most = {w: smaller + (i < larger) for i, w in enumerate(chosen)}
    kept = {w: sorted(previous.get(w, ()))[: most[w]] for w in chosen}
    taken = {rank for ranks in kept.values() for rank in ranks}
    free = iter([rank for rank in range(shards) if rank not in taken])
    return {w: tuple(sorted([*kept[w], *islice(free, most[w] - len(kept[w]))])) for w in chosen}


def fewest_ranks(shards: int, workers: int, threads: int) -> int:
    """To how few ranks shards can be joined so that no worker has more shards than without.

    Nor fewer ranks than threads, if there are shards for that. Both numbers are powers of two, and
    rank r of n has the shards r, r + n, r + 2 n, …
    """
    most, ranks = -(-shards // workers), 1
    while -(-ranks // workers) * (shards // ranks) > most or ranks < min(shards, workers * threads):
        ranks *= 2
    return ranks


@dataclass(frozen=True)
class Terms:
    """What the client gives every worker of an attempt.

    The party has address and ranks of every worker; the position in it names the worker in parcels.
    ``threads`` advance the ranks of each worker. ``doors`` are those that its workers have
    opened, or None, in the same order.
    """

    run_id: str
    attempt: int
    party: tuple[tuple[str, tuple[int, ...]], ...]
    threads: int
    doors: tuple[Address | None, ...] = ()

    @property
    def name(self) -> int:
        """A name of the attempt that no other has: from 1 to 2**62 - 1."""
        text = f"{self.run_id} {self.attempt}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 2 | 1

    def doors_on(self, host: tuple[str, ...]) -> dict[int, Address]:
        """Doors of a host, by the position of their workers."""
        doors = enumerate(self.doors)
        return {member: door for member, door in doors if door and door.host == host}


Item = TypeVar("Item")
Made = TypeVar("Made")
Apply = Callable[[Callable[[Item], Made], Iterable[Item]], Iterable[Made]]

Columns = tuple[AnyArray, ...]
"""Targets, and the columns that travel with them; each (n,)."""


@dataclass(frozen=True)
class Outbound:
    """What one rank sends, ordered by seat: entries ``bounds[seat]:bounds[seat + 1]``."""

    columns: Columns
    bounds: list[int]


@dataclass(frozen=True)
class Inbound:
    """What one worker, which has the ranks ``senders``, sent to the ranks of another.

    Entries are ordered by sender, then by receiver. ``counts`` has a list for each sender, which
    says how many there are for each receiver.
    """

    columns: Columns
    counts: list[list[int]]
    senders: Sequence[int]


def seat_of_rank(seated: Sequence[int]) -> AnyArray:
    """Seat of each rank, given the ranks in order of their seats: uint16 or uint32 (ranks,)."""
    # numpy sorts 16-bit keys by radix, in time linear in the entries.
    narrow = len(seated) <= 1 << 16
    return np.argsort(seated).astype(np.uint16 if narrow else np.uint32)


def sort_by_seat(route: Route, seat_of_rank: AnyArray) -> Outbound:
    """Order the entries of a rank by seat; those of a seat keep their order."""
    columns = (route.target, *route.columns)
    if len({len(column) for column in columns}) > 1:
        lengths = [len(column) for column in columns]
        raise TypeError(f"a rank routes columns of different lengths: {lengths}")
    ends = np.zeros(len(seat_of_rank), np.int64)
    if len(route.target):
        order = np.empty(len(route.target), np.int64)
        order_by_seat(np.ascontiguousarray(route.target), seat_of_rank, ends, order)
        columns = tuple(column[order] for column in columns)
    return Outbound(columns, [0, *ends.tolist()])


def for_seats(sent: Sequence[Outbound], first: int, stop: int) -> tuple[Columns, list[list[int]]]:
    """What a worker's ranks send to the seats ``first:stop``, by sender; counts as of `Inbound`."""
    slices = [
        tuple(column[one.bounds[first] : one.bounds[stop]] for column in one.columns)
        for one in sent
    ]
    bounds = [pairwise(one.bounds[first : stop + 1]) for one in sent]
    return _joined(slices), [[end - begin for begin, end in each] for each in bounds]


def deliver(inbound: Sequence[Inbound]) -> list[Arrived]:
    """Hand each rank of a worker what all workers, itself included, sent to it, by sender."""
    from_sender = {
        sender: row
        for one in inbound
        for sender, row in zip(one.senders, _by_receiver(one), strict=True)
    }
    by_sender = [from_sender[sender] for sender in sorted(from_sender)]
    arrived = [_joined(each) for each in zip(*by_sender, strict=True)]
    return [Arrived(columns[0], columns[1:]) for columns in arrived]


def _by_receiver(inbound: Inbound) -> Iterator[list[Columns]]:
    """For each sender what each receiver gets from it."""
    start, columns = 0, inbound.columns
    for counts in inbound.counts:
        bounds = list(accumulate(counts, initial=start))
        yield [tuple(c[begin:end] for c in columns) for begin, end in pairwise(bounds)]
        start = bounds[-1]


def _joined(pieces: Sequence[Columns]) -> Columns:
    """Pieces one behind the other; a single one is not copied."""
    kinds = {tuple([column.dtype for column in columns]) for columns in pieces}
    if len(kinds) > 1:
        listed = "; ".join(sorted(str([str(dtype) for dtype in kind]) for kind in kinds))
        raise TypeError(f"ranks route columns of different dtypes in one superstep: {listed}")
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
