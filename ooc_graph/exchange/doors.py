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
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ooc_graph.forked import not_inherited

TICK_S = 0.5
"""How often a thread that waits checks whether the attempt goes on."""

_HELLO = struct.Struct("<16sI")  # token, member
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
    """Where a door is; those of one host have equal ``host``."""

    host: tuple[str, ...]
    name: str
    token: bytes


class Door:
    """Takes connections for one attempt; opened and shut on the worker's event loop."""

    works: ClassVar[bool] = True
    """Whether this process may try; not once something failed that should have worked."""

    def __init__(self) -> None:
        token = secrets.token_bytes(16)
        self.address = Address(_host(), f"\0ooc-graph-{secrets.token_hex(8)}", token)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
    def opened(cls) -> Door | None:
        """A new door; None if this system or this process cannot have any."""
        try:
            return cls() if cls.works else None
        except (OSError, AttributeError):
            return None

    def shut(self) -> None:
        """Take no more connections."""
        self._inherited.close()
        self._listener.close()

    def link(
        self, member: int, others: Mapping[int, Address], check: Callable[[], None]
    ) -> dict[int, socket.socket]:
        """Connect with all others, who do the same; ``check`` is called while they do not.

        Called by the task's thread. LeftError: somebody's door is not open any more. OSError: this
        does not work here.
        """
        links: dict[int, socket.socket] = {}
        callers: list[socket.socket] = []
        try:
            for other, address in others.items():
                if other < member:
                    links[other] = _dialled(other, address, member, check)
            while len(links) < len(others):
                callers += self._accepted(callers)
                callers = [one for one in callers if not self._has_said(one, others, links)]
                check()
        except BaseException:
            for one in links.values():
                one.close()
            raise
        finally:
            for one in callers:
                one.close()
        return links

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
        links: dict[int, socket.socket],
    ) -> bool:
        """Whether a caller has said who it is; it is a link if that is right, else refused."""
        try:
            token, other = _HELLO.unpack(caller.recv(_HELLO.size + 1))
        except BlockingIOError:
            return False
        except (OSError, struct.error):
            token, other = b"", -1
        is_right = secrets.compare_digest(token, self.address.token)
        if is_right and other in others and other not in links:
            links[other] = caller
        else:
            caller.close()
        return True


def _dialled(other: int, address: Address, member: int, check: Callable[[], None]) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.setblocking(False)
        while not _is_let_in(link, address.name):
            check()
            time.sleep(_BUSY_S)
        if not _is_own(link):
            raise PermissionError(f"{address.name[1:]} belongs to another user")
        link.send(_HELLO.pack(address.token, member))
    except (ConnectionRefusedError, BrokenPipeError, ConnectionResetError):
        link.close()
        raise LeftError(other) from None
    except BaseException:
        link.close()
        raise
    return link


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
