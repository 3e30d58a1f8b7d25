"""The transport that reaches every worker: messages through Dask's own connections.

They are pooled, with TLS if the cluster has it. All is done on the worker's event loop, for the
task's thread, which waits.
"""

from __future__ import annotations

import asyncio
import pickle
import queue
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from distributed import Worker
from distributed.protocol.serialize import Serialize

from ooc_graph.exchange.parcel import Parcel, Postbox
from ooc_graph.exchange.resident import KEPT, POST_OP
from ooc_graph.exchange.transport import LOOP_STOPPED, AttemptAbortedError, Mail

IN_FLIGHT_PARTS = 4
LOOP_CHECK_S = 30.0

# Small parcels are pickled and go without an acknowledgement, which would double the messages of a
# superstep. One that a peer refuses, or that never arrived, is found by `Messages.note_miss`.
UNANSWERED_BYTES = 1 << 20


class Messages:
    """Trades parcels through Dask; a `Transport`.

    ``names`` are the addresses of all members. ``fail`` is called on the event loop with what a
    trade raised.
    """

    def __init__(
        self,
        members: Collection[int],
        names: Sequence[str],
        worker: Worker,
        box: Postbox,
        fail: Callable[[Exception], None],
    ) -> None:
        self.members, self.bytes_sent = members, 0
        self._names, self._worker, self._box, self._fail = names, worker, box, fail
        # What comes by other transports is not waited for in the box.
        box.senders = frozenset(members)
        self._superstep = -1
        self._unanswered: set[int] = set()
        self._missed: dict[int, int] = {}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_PARTS)
        self._loop: asyncio.AbstractEventLoop = cast(Any, worker.loop).asyncio_loop
        # From the event loop to the task's thread: what a trade came to.
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work: asyncio.Future[Mail] | None = None
        self._failure: Exception | None = None

    def send(self, mail: Mail) -> None:
        """Have the event loop send parcels, and wait for others."""
        self._loop.call_soon_threadsafe(self._begin, mail)

    def receive(self) -> Mail:
        """What the event loop has got, which never comes if the loop is stopped under it."""
        while True:
            try:
                found = self._done.get(timeout=LOOP_CHECK_S)
            except queue.Empty:
                if not self._loop.is_running():
                    raise AttemptAbortedError(LOOP_STOPPED) from None
                continue
            if isinstance(found, BaseException):
                raise found
            return cast(Mail, found)

    def awaited(self) -> set[int]:
        """Members who have not acknowledged something, or whose parcels have not come."""
        if self._work is None:
            return set()
        return self._unanswered | set(self._box.missing(self._superstep))

    def stop(self, error: Exception) -> None:
        """Cancel what is traded."""
        self._failure = error
        if self._work is not None:
            self._work.cancel()

    def _begin(self, mail: Mail) -> None:
        if self._failure is not None:
            self._done.put(self._failure)
            return
        self._work = asyncio.ensure_future(self._trade(mail))
        self._work.add_done_callback(self._pass_on)

    def _pass_on(self, work: asyncio.Future[Mail]) -> None:
        """Give the task's thread what came of a trade, and keep nothing of it."""
        self._work = None
        if work.cancelled():
            self._done.put(self._failure or AttemptAbortedError(LOOP_STOPPED))
            return
        error = work.exception()
        self._done.put(error or work.result())
        if isinstance(error, Exception):
            self._fail(error)

    async def _trade(self, mail: Mail) -> Mail:
        self._superstep += 1
        self._unanswered = set(self.members)
        self._box.begin(self._superstep)
        sends = [self._send(member, mail[member]) for member in self.members]
        if len(sends) == 1:
            await sends[0]
        else:
            tasks = [asyncio.ensure_future(send) for send in sends]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
        return await self._box.collect()

    async def _send(self, member: int, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            if len(parcels) == 1 and parcel.array_bytes <= UNANSWERED_BYTES:
                # Bytes go through Dask at once; for an object it makes a frame of each array.
                packed = pickle.dumps(parcel, protocol=5)
                await self.call(member, POST_OP, parcel=packed, reply=False)
            else:
                async with self._in_flight:
                    # Dask sends the arrays as they lie in memory, not as part of its own message.
                    wrapped = cast(Any, Serialize)(parcel)
                    if await self.call(member, POST_OP, parcel=wrapped) != KEPT:
                        raise AttemptAbortedError(f"{self._names[member]} left the attempt")
            self.bytes_sent += parcel.array_bytes
        self._unanswered.discard(member)

    async def call(self, member: int, operation: str, **message: Any) -> Any:
        """Call a handler of a member; one that is gone ends the attempt."""
        address = self._names[member]
        try:
            return await getattr(self._worker.rpc(address), operation)(**message)
        except OSError as error:
            raise AttemptAbortedError(f"{address} does not answer: {error}", address) from error

    def note_miss(self, member: int, superstep: int) -> None:
        """Abort if a worker waits for what was sent to it before it was last asked.

        It waits for a parcel of this superstep; -1: for none.
        """
        is_in_flight = superstep == self._superstep and member in self._unanswered
        if superstep < 0 or is_in_flight:
            self._missed.pop(member, None)
        elif self._missed.get(member) == superstep:
            raise AttemptAbortedError(f"a parcel to {self._names[member]} was lost")
        else:
            self._missed[member] = superstep
