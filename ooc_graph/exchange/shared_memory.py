"""The transport between workers of one host: their memory, and a message that something is in it.

Each worker writes what it sends into memory that all receivers map, once for those who get the
same. Small arrays travel in the message. In each round every worker sends every other one message,
and waits for one of each. A superstep has more rounds if somebody has more than there is space for.

Two memories take turns, one a round. Who writes for round n + 2 has everyone's messages of round
n + 1, and these were sent after the arrays of round n had been read: merged or joined, if that was
a superstep's last round (see `Transport.receive`), else copied.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import NoReturn

from ooc_graph.exchange import written
from ooc_graph.exchange.doors import TICK_S, Address, Door, LeftError
from ooc_graph.exchange.links import Link
from ooc_graph.exchange.parcel import EARLY_BYTES, Parcel
from ooc_graph.exchange.transport import AttemptAbortedError, Mail, SharingRefusedError
from ooc_graph.exchange.written import MESSAGE_BYTES, Layout, has_more, mapped, nothing, read
from ooc_graph.types import AnyArray

_SLACK_BYTES = 1 << 20


class SharedMemory:
    """Trades parcels with workers of the same host; a `Transport`.

    ``others`` are their doors by member. ``check`` raises once nobody waits for this, and ``watch``
    is called when others are waited for. ``names`` are addresses of workers as the user knows them,
    by member.
    """

    def __init__(
        self,
        member: int,
        door: Door,
        others: Mapping[int, Address],
        names: Sequence[str],
        check: Callable[[], None],
        watch: Callable[[], None],
    ) -> None:
        self.members: Collection[int] = others.keys()
        self.bytes_sent = 0
        self._member, self._door, self._others = member, door, others
        self._names, self._check, self._watch = names, check, watch
        self._links: dict[int, Link] = {}
        self._lock = Lock()  # of what is closed by the thread, and stopped by the event loop
        self._stopped = Event()
        self._letters: written.Letters = []
        self._missing: set[int] = set()
        self._has_more = False
        # A worker maps two memories of each. Nothing comes early, and they may take as much.
        self.round_bytes = EARLY_BYTES // (2 * (1 + len(others)))
        """What a round has space for."""
        self._round = 0
        self._memories = [nothing(), nothing()]
        self._theirs = {other: [nothing(), nothing()] for other in others}

    def send(self, mail: Mail) -> None:
        """Write what goes out in the first round."""
        if not self._links:
            self._link()
        letters: dict[int, tuple[list[Parcel], list[int]]] = {}
        for member, parcels in mail.items():
            letters.setdefault(id(parcels), (list(parcels), []))[1].append(member)
        self._letters = list(letters.values())
        for parcels, receivers in self._letters:
            self.bytes_sent += len(receivers) * sum(parcel.array_bytes for parcel in parcels)
        self._send_round()

    def receive(self) -> Mail:
        """Take what comes, and send more if somebody has more."""
        mail: dict[int, list[Parcel]] = {member: [] for member in self.members}
        while True:
            came: dict[int, bytes] = {}
            while self._missing:
                # This member's task was sent last, so the others have most likely answered before.
                last = max(self._missing)
                if not self._take(last, came) and not self._has_come(last):
                    # After a long wait all that has come is taken: nobody else is asked about then.
                    for member in sorted(self._missing):
                        self._take(member, came)
            self._check()
            goes_on = self._has_more or any(map(has_more, came.values()))
            for member, message in came.items():
                memory = self._theirs[member][self._round % 2]
                mail[member] += read(message, memory, copied=goes_on)
            self._round += 1
            if not goes_on:
                return mail
            self._send_round()

    def common(self, size: int) -> AnyArray:
        """Memory, zeros, that all members map and may keep; between two rounds."""
        first = min(self.members)
        if self._member < first:
            try:
                memory, descriptor = written.new_memory(size)
            except OSError as error:
                self._give_up(error)
            try:
                for member in self.members:
                    self._ring(member, b"\0", [descriptor])
            finally:
                os.close(descriptor)
            return memory
        theirs, turn = self._theirs[first], self._round % 2
        kept, self._missing = theirs[turn], {first}
        while not self._take(first, {}):
            self._has_come(first)
        memory, theirs[turn] = theirs[turn], kept
        return memory

    def awaited(self) -> set[int]:
        """Members whose message of this round has not come."""
        return set(self._missing)

    def stop(self, error: Exception) -> None:
        """End the connections: this thread notices, and so do all others."""
        del error
        self._stopped.set()
        with self._lock:
            for link in self._links.values():
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def keep_links(self) -> None:
        """Leave connections for the next attempt: all that was sent to us has been taken."""
        with self._lock:
            self._door.keep(self._links.values())
            self._links = {}

    def close(self) -> None:
        """Let go of connections and memory."""
        with self._lock:
            while self._links:
                self._links.popitem()[1].close()
        self._memories.clear()
        self._theirs.clear()

    def _link(self) -> None:
        self._missing = set(self.members)
        try:
            links = self._door.link(self._member, self._others, self._look)
        except LeftError as error:
            self._wait_for_end(error.member)
        except OSError as error:
            self._give_up(error)
        with self._lock:
            self._links = links

    def _send_round(self) -> None:
        """Send every member a message, which may say that there is nothing for it."""
        taken = written.taken_from(self._letters, self.round_bytes)
        self._has_more = any(parcels for parcels, _ in self._letters)
        self._missing = set(self.members)
        try:
            layout = Layout()
            messages = [(layout.message(parcels, more=self._has_more), to) for parcels, to in taken]
            descriptors = self._fit(layout.size)
            layout.write(self._memories[self._round % 2])
        except OSError as error:
            self._give_up(error)
        try:
            for message, receivers in messages:
                for member in receivers:
                    self._ring(member, message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _fit(self, size: int) -> list[int]:
        """Descriptor of new memory, for all to map, if this round's is too small."""
        if size <= len(self._memories[self._round % 2]):
            return []
        # Pages that nobody writes to take no memory.
        made = written.new_memory(max(size, self.round_bytes + _SLACK_BYTES))
        self._memories[self._round % 2], descriptor = made
        return [descriptor]

    def _ring(self, member: int, message: bytes, descriptors: list[int]) -> None:
        link = self._links[member]
        try:
            if descriptors:
                socket.send_fds(link, [message], descriptors)
            else:
                link.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._wait_for_end(member)
        except OSError as error:
            self._give_up(error)

    def _take(self, member: int, came: dict[int, bytes]) -> bool:
        """Take a member's message if it has come; memory that comes with it is mapped."""
        link = self._links[member]
        try:
            message, descriptors, is_cut = link.received(MESSAGE_BYTES + 1)
        except BlockingIOError:
            return False
        except OSError:
            self._wait_for_end(member)
        if is_cut:
            self._give_up(OSError("no descriptor is free"))
        for descriptor in descriptors:
            try:
                self._theirs[member][self._round % 2] = mapped(descriptor)
            except OSError as error:
                self._give_up(error)
            finally:
                os.close(descriptor)
        if not message:
            self._wait_for_end(member)
        came[member] = message
        self._missing.discard(member)
        return True

    def _has_come(self, member: int) -> bool:
        """Wait a little for a member's message, or for it to leave; whether that has come."""
        if not (has_come := self._links[member].has_come(TICK_S)):
            self._look()
        return has_come

    def _look(self) -> None:
        self._watch()
        self._check()

    def _wait_for_end(self, member: int) -> NoReturn:
        """Wait until it is known why a member has left: its ranks failed, or it is lost.

        The client ends the attempt everywhere then. Or the guard does, which asks the member.
        """
        while not self._stopped.wait(TICK_S):
            self._look()
        self._check()
        raise AttemptAbortedError(f"{self._names[member]} left the attempt")

    def _give_up(self, error: OSError) -> NoReturn:
        """End the attempt, and have the next do without, unless it has ended already."""
        self._check()
        Door.works = False
        name = self._names[self._member]
        raise SharingRefusedError(f"{name} cannot share memory: {error}") from error
