"""How workers of one host find each other: sockets without a name in any file system.

A worker opens a door for each attempt, and its address travels to the others with the attempt's
terms. Who has a common kernel, network namespace and user may connect, and says a token that is in
the address alone. What connects otherwise is refused. The death of a process closes its sockets,
and nothing else is left of them.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import ClassVar

from ooc_graph.exchange.links import Link, Links, keep, taken
from ooc_graph.forked import not_inherited

TICK_S = 0.5
"""How often a thread that waits checks whether the attempt goes on."""

_HELLO = struct.Struct("<16s8sI")  # token, name of the connection, member
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_CALLERS = 128
"""Callers that may wait at a door until it takes them; further ones try again."""
_BUSY_S = 0.01


class LeftError(Exception):
    """A member's door is not open any more."""

    def __init__(self, member: int) -> None:
        super().__init__(member)
        self.member = member


@dataclass(frozen=True)
class Address:
    """Where a door is; those of one host have equal ``host``.

    ``links`` are the names of connections that there are already.
    """

    host: tuple[str, ...]
    name: str
    token: bytes
    links: frozenset[bytes] = frozenset()


class Door:
    """Takes connections for one attempt; opened and shut on the worker's event loop.

    Those that the worker has ``kept`` are the door's until it is shut.
    """

    works: ClassVar[bool] = True
    """Whether this process may try; not once something failed that should have worked."""

    def __init__(self, kept: Links | None = None) -> None:
        self._kept: Links = {} if kept is None else kept
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._links, self._lock, self._is_shut = taken(self._kept), Lock(), False
        token, name = secrets.token_bytes(16), f"\0ooc-graph-{secrets.token_hex(8)}"
        self.address = Address(_host(), name, token, frozenset(self._links))
        self._inherited = ExitStack()
        self._inherited.enter_context(not_inherited(self._listener.fileno()))
        try:
            self._listener.bind(self.address.name)
            self._listener.listen(_CALLERS)
            self._listener.setblocking(False)
            os.close(os.memfd_create("ooc-graph"))
        except BaseException:
            self.shut()
            raise

    @classmethod
    def opened(cls, kept: Links) -> Door | None:
        """A new door; None if this system or this process cannot have any."""
        try:
            return cls(kept) if cls.works else None
        except (OSError, AttributeError):
            return None

    def shut(self) -> None:
        """Take no more connections; those that nobody uses are kept for the next."""
        self._inherited.close()
        with self._lock:
            self._is_shut = True
            self._listener.close()
            keep(self._kept, self._links)
            self._links = {}

    @property
    def is_silent(self) -> bool:
        """Whether nobody calls, and nothing has come over the connections that are kept."""
        poll = select.poll()
        with self._lock:
            if self._is_shut:
                return False
            for one in (self._listener, *self._links.values()):
                poll.register(one, select.POLLIN)
            return not poll.poll(0)

    def keep(self, links: Iterable[Link]) -> None:
        """Take connections back, over which nothing is on its way; from any thread."""
        with self._lock:
            if not self._is_shut:
                self._links |= {link.name: link for link in links}
                return
        for link in links:
            link.close()

    def link(
        self, member: int, others: Mapping[int, Address], check: Callable[[], None]
    ) -> dict[int, Link]:
        """Connect with all others, who do the same; ``check`` is called while they do not.

        Called by the task's thread. LeftError: somebody's door is not open any more. OSError: this
        does not work here.
        """
        links: dict[int, Link] = {}
        callers: list[socket.socket] = []
        try:
            for other, address in others.items():
                if (kept := self._taken(address)) is not None:
                    links[other] = kept
                elif other < member:
                    links[other] = _dialled(other, address, member, check)
            while len(links) < len(others):
                callers += self._accepted(callers)
                callers = [one for one in callers if not self._has_said(one, others, links)]
                check()
        except BaseException:
            for link in links.values():
                link.close()
            raise
        finally:
            for one in callers:
                one.close()
        return links

    def _taken(self, address: Address) -> Link | None:
        """A connection to a door that both have kept; the same one at both ends."""
        both = self.address.links & address.links
        with self._lock:
            return self._links.pop(min(both), None) if both else None

    def _accepted(self, callers: list[socket.socket]) -> list[socket.socket]:
        """Wait a little; who called meanwhile and is of the same user."""
        poll = select.poll()
        for one in (self._listener, *callers):
            poll.register(one, select.POLLIN)
        poll.poll(TICK_S * 1e3)
        accepted: list[socket.socket] = []
        with suppress(BlockingIOError):
            while True:
                caller, _ = self._listener.accept()
                caller.setblocking(False)
                if _is_own(caller):
                    accepted.append(caller)
                else:
                    caller.close()
        return accepted

    def _has_said(
        self,
        caller: socket.socket,
        others: Mapping[int, Address],
        links: dict[int, Link],
    ) -> bool:
        """Whether a caller has said who it is; it is a link if that is right, else refused."""
        try:
            token, name, other = _HELLO.unpack(caller.recv(_HELLO.size + 1))
        except BlockingIOError:
            return False
        except (OSError, struct.error):
            token, name, other = b"", b"", -1
        is_right = secrets.compare_digest(token, self.address.token)
        if is_right and other in others and other not in links:
            links[other] = Link(caller, name)
        else:
            caller.close()
        return True


def _dialled(other: int, address: Address, member: int, check: Callable[[], None]) -> Link:
    link, name = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), secrets.token_bytes(8)
    try:
        link.setblocking(False)
        while not _is_let_in(link, address.name):
            check()
            time.sleep(_BUSY_S)
        if not _is_own(link):
            raise PermissionError(f"{address.name[1:]} belongs to another user")
        link.send(_HELLO.pack(address.token, name, member))
    except (ConnectionRefusedError, BrokenPipeError, ConnectionResetError):
        link.close()
        raise LeftError(other) from None
    except BaseException:
        link.close()
        raise
    return Link(link, name)


def _is_let_in(link: socket.socket, name: str) -> bool:
    """Whether a door has space for another caller."""
    try:
        link.connect(name)
    except BlockingIOError:
        return False
    return True


def _is_own(link: socket.socket) -> bool:
    found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return bool(user == os.geteuid())


def _host() -> tuple[str, ...]:
    """What processes have in common that can connect: kernel, namespaces, user."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = (f"/proc/self/ns/{kind}" for kind in ("net", "user"))
    return boot, *map(os.readlink, spaces), str(os.geteuid())
