"""One worker's part in an attempt: trades parcels with the other workers, superstep by superstep.

The ranks run in the thread of a Dask task; trading runs on the worker's event loop. Parcels go
from worker to worker through Dask's own connections (pooled, TLS if the cluster has it).
"""

from __future__ import annotations

import asyncio
import pickle
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from distributed import Worker
from distributed.protocol.serialize import Serialize

from ooc_graph.exchange.interface import DivergedRanksError
from ooc_graph.exchange.parcel import Kind, Parcel, Part, Postbox
from ooc_graph.exchange.resident import KEPT, POST_OP, WAITS_FOR_OP
from ooc_graph.exchange.routing import Terms

IN_FLIGHT_PARTS = 4
TICK_S = 0.5
SILENCE_S = 5.0
PROBE_S = 10.0
LOOP_CHECK_S = 30.0
LOOP_STOPPED = "the worker's event loop was stopped"

# Small parcels are pickled and go without an acknowledgement, which would double the messages of a
# superstep. One that a peer refuses, or that never arrived, is found by `Party._probe`.
UNANSWERED_BYTES = 1 << 20


class AttemptAbortedError(Exception):
    """The attempt cannot continue; ``lost`` is the address of a worker that no longer answers."""

    def __init__(self, cause: str, lost: str | None = None) -> None:
        super().__init__(cause)
        self.cause, self.lost = cause, lost


class Party:
    """Trades parts of one attempt with every other worker.

    ``member`` is this worker's position in the terms' party; ``is_wanted`` is False once the client
    has cancelled the task.
    """

    def __init__(
        self, terms: Terms, member: int, worker: Worker, box: Postbox, is_wanted: Callable[[], bool]
    ) -> None:
        self.terms, self.member = terms, member
        self.supersteps = 0
        self.bytes_sent = 0
        self._worker, self._box, self._is_wanted = worker, box, is_wanted
        self._unanswered: set[int] = set()
        self._missed: dict[int, int] = {}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_PARTS)
        self._loop: asyncio.AbstractEventLoop = cast(Any, worker.loop).asyncio_loop
        # From the event loop to the task's thread: what a trade came to.
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work: asyncio.Future[Mapping[int, Sequence[Parcel]]] | None = None
        self._guarding: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        members = len(terms.party)
        # Everyone begins with its successor, so that nobody is everybody's first.
        self._others = [(member + step) % members for step in range(1, members)]

    def trade(
        self, kind: Kind, parts_for: Callable[[int], Sequence[Part]]
    ) -> Mapping[int, Sequence[Parcel]]:
        """Send parts to every other worker and wait for theirs; called by the task's thread.

        Workers are named by their position in the party, and must all ask for the same kind.
        Parcels come in the order of their parts.
        """
        self.check()
        mail: Mapping[int, Sequence[Parcel]] = {}
        if self._others:
            parts = {other: parts_for(other) for other in self._others}
            self._loop.call_soon_threadsafe(self._begin, kind, parts)
            mail = self._traded()
        self.supersteps += 1
        self._require_same_kind(kind, mail)
        return mail

    def _traded(self) -> Mapping[int, Sequence[Parcel]]:
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
            return cast(Mapping[int, Sequence[Parcel]], found)

    def check(self) -> None:
        """Raise if the attempt was aborted or the client no longer wants it."""
        if self._box.aborted.done():
            raise AttemptAbortedError(self._box.cause)
        if not self._is_wanted():
            raise AttemptAbortedError("the client cancelled the run")

    def _require_same_kind(self, kind: Kind, mail: Mapping[int, Sequence[Parcel]]) -> None:
        for member, parcels in mail.items():
            if parcels[0].kind is not kind:
                raise DivergedRanksError(
                    f"superstep {self.supersteps - 1}: ranks {self.terms.party[self.member][1]} "
                    f"ask to {kind.value}, ranks {self.terms.party[member][1]} "
                    f"to {parcels[0].kind.value}"
                )

    def _begin(self, kind: Kind, parts: Mapping[int, Sequence[Part]]) -> None:
        """Begin a trade; on the event loop, as all that follows."""
        if self._failure is not None:
            self._done.put(self._failure)
            return
        self._quiet_since_s = time.monotonic()
        self._work = asyncio.ensure_future(self._trade(kind, parts))
        self._work.add_done_callback(self._pass_on)
        if self._guarding is None:
            self._guarding = asyncio.ensure_future(self._guard())

    def _pass_on(self, work: asyncio.Future[Mapping[int, Sequence[Parcel]]]) -> None:
        """Give the task's thread what came of a trade, and keep nothing of it."""
        self._work = None
        if work.cancelled():
            self._done.put(self._failure or AttemptAbortedError(LOOP_STOPPED))
        else:
            self._done.put(work.exception() or work.result())

    async def _trade(
        self, kind: Kind, parts: Mapping[int, Sequence[Part]]
    ) -> Mapping[int, Sequence[Parcel]]:
        self._unanswered = set(self._others)
        self._box.begin(self.supersteps)
        sends = [self._send(other, kind, parts[other]) for other in self._others]
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

    async def _send(self, member: int, kind: Kind, parts: Sequence[Part]) -> None:
        address = self.terms.party[member][0]
        for number, part in enumerate(parts):
            parcel = Parcel(
                self.terms.run_id, self.terms.attempt, self.supersteps, self.member,
                number, len(parts), kind, part.header, part.arrays,
            )  # fmt: skip
            if len(parts) == 1 and parcel.array_bytes <= UNANSWERED_BYTES:
                # Bytes go through Dask at once; for an object it makes a frame of each array.
                packed = pickle.dumps(parcel, protocol=5)
                await self._call(address, POST_OP, parcel=packed, reply=False)
            else:
                async with self._in_flight:
                    # Dask sends the arrays as they lie in memory, not as part of its own message.
                    wrapped = cast(Any, Serialize)(parcel)
                    if await self._call(address, POST_OP, parcel=wrapped) != KEPT:
                        raise AttemptAbortedError(f"{address} left the attempt")
            self.bytes_sent += parcel.array_bytes
        self._unanswered.discard(member)

    async def _call(self, address: str, operation: str, **message: Any) -> Any:
        try:
            return await getattr(self._worker.rpc(address), operation)(**message)
        except OSError as error:
            raise AttemptAbortedError(f"{address} does not answer: {error}", address) from error

    async def _guard(self) -> None:
        """Look now and then whether the attempt can still succeed; if not, end what is traded."""
        probe: asyncio.Future[None] | None = None
        try:
            while True:
                watched = {self._box.aborted, *([probe] if probe else [])}
                await asyncio.wait(watched, timeout=TICK_S, return_when="FIRST_COMPLETED")
                self.check()
                if probe is not None and probe.done():
                    probe.result()
                    probe, self._quiet_since_s = None, time.monotonic()
                quiet_s = time.monotonic() - self._quiet_since_s
                if probe is None and self._work is not None and quiet_s > SILENCE_S:
                    probe = asyncio.ensure_future(self._probe())
        except Exception as error:  # noqa: BLE001 -- raised in the task's thread
            self._failure = error
            if self._work is not None:
                self._work.cancel()
        finally:
            if probe is not None:
                probe.add_done_callback(_look_at_error)
                probe.cancel()

    async def _probe(self) -> None:
        """Ask those on whom this worker waits whether they are still in the attempt."""
        for member in self._awaited():
            address = self.terms.party[member][0]
            question = self._call(
                address,
                WAITS_FOR_OP,
                run_id=self.terms.run_id,
                attempt=self.terms.attempt,
                sender=self.member,
            )
            try:
                superstep = await asyncio.wait_for(question, PROBE_S)
            except TimeoutError:
                cause = f"{address} has not answered for {PROBE_S:.0f} s"
                raise AttemptAbortedError(cause, address) from None
            # Its last parcel and its leaving may have crossed with the question.
            if superstep is None and member in self._awaited():
                raise AttemptAbortedError(f"{address} left the attempt")
            self._note_miss(member, -1 if superstep is None else superstep)

    def _note_miss(self, member: int, superstep: int) -> None:
        """Abort if a worker waits for what was sent to it before it was last asked.

        It waits for a parcel of this superstep; -1: for none.
        """
        is_in_flight = superstep == self.supersteps and member in self._unanswered
        if superstep < 0 or is_in_flight:
            self._missed.pop(member, None)
        elif self._missed.get(member) == superstep:
            raise AttemptAbortedError(f"a parcel to {self.terms.party[member][0]} was lost")
        else:
            self._missed[member] = superstep

    def _awaited(self) -> set[int]:
        return self._unanswered | set(self._box.missing(self.supersteps))


def _look_at_error(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging the error of what was cancelled."""
    if not future.cancelled():
        future.exception()
