"""One worker's part in an attempt: trades parcels with the other workers, superstep by superstep.

The ranks run in the thread of a Dask task, which trades with workers of the same host itself
(`shared_memory`), and with others through the worker's event loop (`messages`). There a guard looks
whether the attempt goes on, and asks workers that are silent. It begins with the first message to
another host, or once a worker of the same host has been waited for: most searches there end before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from distributed import Worker

from ooc_graph.exchange.doors import TICK_S
from ooc_graph.exchange.interface import DivergedRanksError, ExchangeStats
from ooc_graph.exchange.messages import Messages
from ooc_graph.exchange.parcel import PART_BYTES, Kind, Parcel, Part, Postbox
from ooc_graph.exchange.resident import DONE, WAITS_FOR_OP
from ooc_graph.exchange.routing import Terms
from ooc_graph.exchange.shared_memory import SharedMemory
from ooc_graph.exchange.transport import LOOP_STOPPED, AttemptAbortedError, Transport
from ooc_graph.types import AnyArray

SILENCE_S = 5.0
PROBE_S = 10.0


class Party:
    """Trades parts of one attempt with every other worker.

    ``member`` is this worker's position in the terms' party; ``is_wanted`` is False once the client
    has cancelled the task.
    """

    def __init__(
        self, terms: Terms, member: int, worker: Worker, box: Postbox, is_wanted: Callable[[], bool]
    ) -> None:
        self.terms, self.member = terms, member
        self.supersteps, self._kind = 0, Kind.DONE
        self._box, self._is_wanted = box, is_wanted
        self._loop: asyncio.AbstractEventLoop = cast(Any, worker.loop).asyncio_loop
        self._failure: Exception | None = None
        self._guarding: Future[None] | None = None
        self._done: set[int] = set()  # members that said so once, and are still waited for
        self._quiet_since_s, self._seconds = time.monotonic(), 0.0
        names, count = [address for address, _ in terms.party], len(terms.party)
        # Everyone begins with its successor, so that nobody is everybody's first.
        self._others = [(member + step) % count for step in range(1, count)]
        doors = {} if box.door is None else terms.doors_on(box.door.address.host)
        near = {other: doors[other] for other in self._others if other in doors}
        far = [other for other in self._others if other not in near]
        self.has_far = bool(far)
        """Whether some worker is reached through a network, where bytes cost more than coding."""
        self._messages = Messages(far, names, worker, box, self._fail)
        self._memory: SharedMemory | None = None
        self.part_bytes = PART_BYTES
        """Bytes of the largest part into which a message is cut."""
        if near and box.door is not None:
            self._memory = SharedMemory(
                member, box.door, near, names, self.check, self._begin_guard
            )
            self.part_bytes = min(PART_BYTES, self._memory.round_bytes)
        # What is far is sent before this thread waits for what is near.
        both: tuple[Transport | None, ...] = self._messages, self._memory
        self._transports = [one for one in both if one is not None and one.members]

    def stats(self) -> ExchangeStats:
        """What this worker has traded."""
        memory = self._memory
        return ExchangeStats(
            supersteps=self.supersteps,
            bytes_sent=sum(transport.bytes_sent for transport in self._transports),
            bytes_shared=0 if memory is None else memory.bytes_sent,
            links=len(self._others),
            links_shared=0 if memory is None else len(memory.members),
            seconds=self._seconds,
        )

    def close(self) -> None:
        """Let go of what is shared with other workers; called by the task's thread."""
        if self._memory is not None:
            self._memory.close()

    def trade(
        self, kind: Kind, parts_for: Callable[[int], Sequence[Part]]
    ) -> Mapping[int, Sequence[Parcel]]:
        """Send parts to every other worker and wait for theirs; called by the task's thread.

        Workers are named by their position in the party, and must all ask for the same kind. If
        all are on one host, those that are done do not tell each other. Parcels come in the order
        of their parts. Their arrays are to be read before the next trade, and not kept.
        """
        self.check()
        self._kind = kind
        if kind is Kind.DONE and not self.has_far:
            # Nothing more will come, and what was sent stays in sockets and memory of the others.
            if self._memory is not None:
                self._memory.keep_links()
            return {}
        if self.has_far:
            self._begin_guard()
        mail: dict[int, Sequence[Parcel]] = {}
        parcels = self._addressed(kind, {other: parts_for(other) for other in self._others})
        self._quiet_since_s = time.monotonic()
        try:
            for transport in self._transports:
                transport.send({member: parcels[member] for member in transport.members})
            for transport in reversed(self._transports):
                mail |= transport.receive()
        except Exception:
            # Rather why the attempt ended than that a worker left, as all do then.
            self.check()
            raise
        self._seconds += time.monotonic() - self._quiet_since_s
        self._require_same_kind(mail)
        if kind is not Kind.DONE:
            self.supersteps += 1
        elif self._memory is not None:
            self._memory.keep_links()
        return mail

    def _addressed(
        self, kind: Kind, parts: Mapping[int, Sequence[Part]]
    ) -> dict[int, Sequence[Parcel]]:
        """Parcels of parts; those who get the same parts get the same parcels."""
        made: dict[int, Sequence[Parcel]] = {}
        for each in parts.values():
            if id(each) not in made:
                made[id(each)] = [
                    Parcel(
                        self.terms.run_id, self.terms.attempt, self.supersteps, self.member,
                        number, len(each), kind, part.header, part.arrays,
                    ) for number, part in enumerate(each)
                ]  # fmt: skip
        return {member: made[id(each)] for member, each in parts.items()}

    def common(self, size: int) -> AnyArray | None:
        """Memory, zeros, that all workers map, after they have traded; None if they cannot."""
        if self._memory is None or self.has_far:
            return None
        return self._memory.common(size)

    def is_silent(self) -> bool:
        """Whether no worker of this host has sent anything yet; raises as `check`."""
        self.check()
        return self._box.door is not None and self._box.door.is_silent

    def check(self) -> None:
        """Raise if the attempt was aborted or the client no longer wants it; from any thread."""
        if self._failure is not None:
            raise self._failure
        if self._box.aborted.done():
            raise AttemptAbortedError(self._box.cause)
        if not self._is_wanted():
            raise AttemptAbortedError("the client cancelled the run")
        if not self._loop.is_running():
            raise AttemptAbortedError(LOOP_STOPPED)

    def _require_same_kind(self, mail: Mapping[int, Sequence[Parcel]]) -> None:
        for member, parcels in mail.items():
            if parcels[0].kind is not self._kind:
                raise self._diverged(member, parcels[0].kind)

    def _diverged(self, member: int, theirs: Kind) -> DivergedRanksError:
        of = self.terms.party
        return DivergedRanksError(
            f"superstep {self.supersteps}: ranks {of[self.member][1]} ask to {self._kind.value}, "
            f"ranks {of[member][1]} to {theirs.value}"
        )

    def _begin_guard(self) -> None:
        """Have the event loop look after the attempt from now on."""
        if self._guarding is not None:
            return
        guard = self._guard()
        try:
            self._guarding = asyncio.run_coroutine_threadsafe(guard, self._loop)
        except RuntimeError:
            guard.close()
            raise AttemptAbortedError(LOOP_STOPPED) from None

    def _fail(self, error: Exception) -> None:
        """End what is traded, and all that would be."""
        self._failure = self._failure or error
        for transport in self._transports:
            transport.stop(error)

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
                if probe is None and quiet_s > SILENCE_S and self._awaited():
                    probe = asyncio.ensure_future(self._probe())
        except Exception as error:  # noqa: BLE001 -- raised in the task's thread
            self._fail(error)
        finally:
            if probe is not None:
                probe.add_done_callback(_look_at_error)
                probe.cancel()

    async def _probe(self) -> None:
        """Ask those on whom this worker waits whether they are still in the attempt."""
        for member in self._awaited():
            address = self.terms.party[member][0]
            question = self._messages.call(
                member,
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
            if superstep == DONE and member in self._awaited():
                if member in self._done:
                    # Whoever was frozen has had time since it said so to take what has come.
                    if self._kind is Kind.DONE:
                        raise AttemptAbortedError(f"what {address} sent last was lost")
                    raise self._diverged(member, Kind.DONE)
                self._done.add(member)
            self._messages.note_miss(member, -1 if superstep is None else superstep)

    def _awaited(self) -> set[int]:
        return {member for transport in self._transports for member in transport.awaited()}


def _look_at_error(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging the error of what was cancelled."""
    if not future.cancelled():
        future.exception()
