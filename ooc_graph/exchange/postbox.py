"""Where parcels of one attempt wait on a worker until its ranks want them.

Everything here runs on the worker's event loop, so there are no locks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from ooc_graph.exchange.parcel import Parcel

EARLY_BYTES = 64 << 20


class StaleParcelError(Exception):
    """The parcel belongs to an attempt that is not, or no longer, open on this worker."""


class Postbox:
    """Parcels of one attempt, by superstep and sender, which is a position in the party.

    A sender can be ahead of this worker by one superstep at most, as it needs this worker's
    parcels. What comes early is kept up to ``early_bytes``; beyond that the sender's
    acknowledgement waits. ``is_manned``: the task that empties it has begun; ``aborted`` is done
    for the reason in ``cause``.
    """

    def __init__(self, senders: frozenset[int], *, early_bytes: int = EARLY_BYTES) -> None:
        self.senders = senders
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
        self._mail.clear()
        self._free_space()

    def _free_space(self) -> None:
        self._space.set()
        self._space = asyncio.Event()
