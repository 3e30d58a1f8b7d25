"""Connections between workers of one host, each of which serves one attempt after the other.

Once a worker has come to the end of an attempt, nothing is on its way to it over the connections.
Who opens a door for the next takes all that the worker has, and names them in its address: so both
ends know the same of which one is used.
"""

from __future__ import annotations

import select
import socket
import struct
from contextlib import ExitStack

from ooc_graph.forked import not_inherited

_DESCRIPTOR = struct.Struct("i")


class Link(socket.socket):
    """A connection with another worker; both ends call it by its name."""

    def __init__(self, one: socket.socket, name: bytes) -> None:
        super().__init__(fileno=one.detach())
        self.setblocking(False)
        self.name = name
        self._inherited = ExitStack()
        self._inherited.enter_context(not_inherited(self.fileno()))

    def close(self) -> None:
        """End it."""
        self._inherited.close()
        super().close()

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has come that was not taken."""
        try:
            self.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def has_come(self, patience_s: float) -> bool:
        """Wait until something has come, or the other end is closed; False if that takes longer."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(patience_s * 1e3))

    def received(self, most_bytes: int) -> tuple[bytes, list[int], bool]:
        """What has come, descriptors that came along, and whether none was free for some."""
        space = socket.CMSG_LEN(_DESCRIPTOR.size)
        found = self.recvmsg(most_bytes, space, socket.MSG_CMSG_CLOEXEC)
        descriptors = [_DESCRIPTOR.unpack(one)[0] for _, _, one in found[1]]
        return found[0], descriptors, bool(found[2] & socket.MSG_CTRUNC)


Links = dict[bytes, Link]
"""Connections by name."""


MOST_KEPT = 128
"""Connections that a worker keeps: attempts that overlap each have their own."""


def keep(kept: Links, links: Links) -> None:
    """Keep further connections; the oldest are closed if there are too many."""
    kept |= links
    for name in list(kept)[:-MOST_KEPT]:
        kept.pop(name).close()


def taken(kept: Links) -> Links:
    """Take all connections that can be used; the others are closed."""
    links = dict(kept)
    kept.clear()
    for name, link in list(links.items()):
        if not link.is_quiet:
            links.pop(name).close()
    return links
