"""What takes parcels from a worker of an attempt to others, and brings theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ooc_graph.exchange.parcel import Parcel

Mail = Mapping[int, Sequence[Parcel]]
"""Parcels in the order of their parts, by member: a worker's position in the party."""


LOOP_STOPPED = "the worker's event loop was stopped"


class AttemptAbortedError(Exception):
    """The attempt cannot continue; ``lost`` is the address of a worker that no longer answers."""

    def __init__(self, cause: str, lost: str | None = None) -> None:
        super().__init__(cause)
        self.cause, self.lost = cause, lost


class SharingRefusedError(AttemptAbortedError):
    """Something keeps this process from sharing memory; in the next attempt it does without."""


class Transport(Protocol):
    """Trades parcels with some of the other workers.

    In each superstep the task's thread calls `send` and then `receive`; both raise an
    AttemptAbortedError if that is in vain. Other methods are called on the worker's event loop.
    """

    members: Collection[int]  # whom it reaches
    bytes_sent: int  # of arrays, counted for each receiver

    def send(self, mail: Mail) -> None:
        """Send parcels to every member, without waiting for theirs.

        Those who get the same may be given the same sequence, which is then written once.
        """

    def receive(self) -> Mail:
        """Wait for the parcels of every member.

        Their arrays are to be read before the next `send`, and not kept.
        """

    def awaited(self) -> set[int]:
        """Members of whom something is waited for, or who may lack something."""

    def stop(self, error: Exception) -> None:
        """Have what waits raise an error, and all that is done after it."""
