"""What travels between two workers in a superstep, cut into parts of bounded size, and waits there.

A `Postbox` runs on the worker's event loop, so it has no locks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.exchange.doors import Door
from ooc_graph.types import AnyArray

PART_BYTES = 8 << 20


class Kind(Enum):
    """What the ranks of the sender asked for."""

    SHARE = "share"
    ROUTE = "route"
    DONE = "done"


class Parcel(NamedTuple):
    """One part, of so many, of what a worker sends another in a superstep.

    The sender is its position in the party. The header, in part 0 alone, is what the receiver needs
    to put the arrays together. These are views of the sender's arrays before the journey, and of a
    receive buffer after it.
    """

    run_id: str
    attempt: int
    superstep: int
    sender: int
    part: int
    parts: int
    kind: Kind
    header: Any
    arrays: tuple[AnyArray, ...]

    @property
    def array_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)

    def copied(self) -> Parcel:
        """Return the parcel with arrays of its own, as the sender may overwrite them."""
        return self._replace(arrays=tuple(array.copy() for array in self.arrays))


@dataclass(frozen=True)
class Part:
    """Arrays of one parcel before it is addressed, with what part 0 says about them."""

    header: Any
    arrays: tuple[AnyArray, ...]


def cut_arrays(
    arrays: Sequence[AnyArray], note: Any = None, *, part_bytes: int = PART_BYTES
) -> list[Part]:
    """Pack arrays of any shapes and dtypes into parts of at most ``part_bytes``; views.

    The header carries ``note``; and if there are several parts, every array's shape, and which
    piece belongs to which array.
    """
    if sum(array.nbytes for array in arrays) <= part_bytes:
        whole = tuple(a if a.flags.c_contiguous else a.copy() for a in arrays)
        return [Part((note, None, None), whole)]
    owners: list[int] = []
    parts: list[list[AnyArray]] = [[]]
    free_bytes = part_bytes
    for number, piece in _pieces(arrays, part_bytes):
        if piece.nbytes > free_bytes and parts[-1]:
            parts.append([])
            free_bytes = part_bytes
        parts[-1].append(piece)
        free_bytes -= piece.nbytes
        owners.append(number)
    header = (note, tuple(array.shape for array in arrays), tuple(owners))
    return [Part(header if i == 0 else None, tuple(part)) for i, part in enumerate(parts)]


def _pieces(arrays: Sequence[AnyArray], part_bytes: int) -> Iterator[tuple[int, AnyArray]]:
    for number, array in enumerate(arrays):
        flat = np.ascontiguousarray(array).reshape(-1)
        step = max(1, part_bytes // max(1, flat.itemsize))
        for start in range(0, max(1, len(flat)), step):
            yield number, flat[start : start + step]


def join_arrays(parts: Sequence[Part | Parcel]) -> tuple[Any, list[AnyArray]]:
    """Undo `cut_arrays`: the note and the arrays.

    Arrays that were never cut are views of their part if aligned.
    """
    note, shapes, owners = parts[0].header
    if shapes is None:
        return note, [_aligned(array) for array in parts[0].arrays]
    pieces: list[list[AnyArray]] = [[] for _ in shapes]
    for owner, piece in zip(owners, (a for part in parts for a in part.arrays), strict=True):
        pieces[owner].append(piece)
    whole = [_join(group).reshape(shape) for group, shape in zip(pieces, shapes, strict=True)]
    return note, whole


def _join(pieces: list[AnyArray]) -> AnyArray:
    return np.concatenate(pieces) if len(pieces) > 1 else _aligned(pieces[0])


def _aligned(array: AnyArray) -> AnyArray:
    # Receive buffers hold several frames back to back; kernels are compiled for aligned arrays.
    return array if array.flags.aligned else array.copy()


EARLY_BYTES = 64 << 20


class StaleParcelError(Exception):
    """The parcel belongs to an attempt that is not, or no longer, open on this worker."""


class Postbox:
    """Parcels of one attempt, by superstep and sender, which is a position in the party.

    A sender can be ahead of this worker by one superstep at most, as it needs this worker's
    parcels. What comes early is kept up to ``early_bytes``; beyond that the sender's
    acknowledgement waits. ``is_manned``: the task that empties it has begun; ``aborted`` is done
    for the reason in ``cause``. ``door`` is where workers of the same host connect for the attempt.
    """

    def __init__(
        self,
        senders: frozenset[int],
        door: Door | None = None,
        *,
        early_bytes: int = EARLY_BYTES,
    ) -> None:
        self.senders, self.door = senders, door
        self.superstep = -1
        self._collected = -1
        self.is_manned = False
        self.cause = ""
        self.aborted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early_limit_bytes = early_bytes
        self._early_bytes = 0
        self._mail: dict[int, dict[int, list[Parcel]]] = defaultdict(lambda: defaultdict(list))
        self._arrival = asyncio.Event()
        self._space = asyncio.Event()

    async def put(self, parcel: Parcel) -> None:
        """Keep a parcel; returns when it is kept, which a sender may have to wait for.

        A parcel of an attempt or superstep that is over is refused with a StaleParcelError.
        """
        while not self.aborted.done() and self._is_full_for(parcel):
            await self._space.wait()
        if self.aborted.done() or parcel.superstep < self.superstep:
            raise StaleParcelError(f"superstep {parcel.superstep} is over or aborted here")
        if parcel.superstep > self.superstep:
            self._early_bytes += parcel.array_bytes
        self._mail[parcel.superstep][parcel.sender].append(parcel)
        if not self.missing(self.superstep):
            self._arrival.set()

    def _is_full_for(self, parcel: Parcel) -> bool:
        ahead = parcel.superstep > self.superstep
        full = self._early_bytes + parcel.array_bytes > self._early_limit_bytes
        return ahead and full and self._early_bytes > 0

    def missing(self, superstep: int) -> list[int]:
        """Senders of whom some part for ``superstep`` has not come yet."""
        mail = self._mail.get(superstep, {})
        return [s for s in self.senders if s not in mail or len(mail[s]) < mail[s][0].parts]

    def waits_for(self, sender: int) -> int:
        """Superstep in which a part of a sender is waited for; -1 if there is none."""
        is_waiting = self.superstep > self._collected and sender in self.missing(self.superstep)
        return self.superstep if is_waiting else -1

    def begin(self, superstep: int) -> None:
        """Take in all parcels of a superstep; what comes for the next one is early."""
        self.superstep = superstep
        self._early_bytes = 0
        self._free_space()

    async def collect(self) -> dict[int, list[Parcel]]:
        """Wait for every part of every sender in this superstep; parts come in order."""
        while self.missing(self.superstep):
            self._arrival.clear()
            await self._arrival.wait()
        self._collected = self.superstep
        mail = self._mail.pop(self.superstep, {})
        return {sender: sorted(parts, key=lambda p: p.part) for sender, parts in mail.items()}

    def abort(self, cause: str) -> None:
        """Drop the mail and refuse more; what waits here or for ``aborted`` wakes up."""
        if self.aborted.done():
            return
        self.cause = cause
        self.aborted.set_result(None)
        if self.door is not None:
            self.door.shut()
        self._mail.clear()
        self._free_space()

    def _free_space(self) -> None:
        self._space.set()
        self._space = asyncio.Event()
