"""What ranks on the CPU have in common that search together: how they launch, wait and fail."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.team import GENERATION, OPERATION, Team, new_control
from ooc_graph.types import Dealing, Gathering, IntArray

_NAME_BITS = 24
GATHERING_S = 0.1
"""How long a rank waits, without a message, for the others to come where they met before."""
MOST_FAILURES = 3
"""A rank that has given up so often in a row does not search together with others again."""


class LaunchesTogether:
    """Part of a rank that searches together with others by the threads of its process.

    They are taken for the launch alone: who held them while it waits for others might be waited
    for by these.
    """

    _dealing: Dealing
    _team: Team
    _failures = 0
    _name = 0  # of the common memory that is kept

    @property
    def may_meet(self) -> bool:
        """As of `PeerRank`."""
        return self._dealing.shards > 1 and self._failures < MOST_FAILURES

    def is_free(self, search: object) -> bool:
        """As of `PeerRank`: the process's threads. Of its ranks one may have them, the first."""
        return self._team.is_free and vars(search).setdefault("asked_by", self) is self

    @property
    def greeting(self) -> tuple[int, int]:
        """As of `PeerRank`: the name of the memory that is kept, and its square."""
        return self._name, self._name**2

    def has_met(self, greetings: Sequence[int]) -> bool:
        """As of `PeerRank`."""
        names, squares = greetings
        # Numbers are equal if the square of their sum is as large as it can be.
        return names > 0 and names**2 == self._dealing.shards * squares

    def offer(self) -> tuple[int, ...]:
        """As of `PeerRank`: part of the name that the common memory is to have."""
        return (1 + secrets.randbits(_NAME_BITS),)

    def _gathered(self, words: IntArray, gathering: Gathering | None) -> bool:
        """Whether all ranks come to a gathering in memory that they have kept; the same on all."""
        if gathering is None or meeting.FUTEX is None:
            return False
        rank, ranks, name = self._dealing.shard, self._dealing.shards, gathering.name
        until_s = monotonic() + GATHERING_S
        meeting.come(words, rank, name)
        try:
            while not (found := meeting.gathered(words, ranks, name)):
                # Who sends something does not come.
                if monotonic() > until_s or not gathering.is_silent():
                    return bool(meeting.leave(words, rank, ranks, name))
        except BaseException:
            meeting.leave(words, rank, ranks, name)
            raise
        return bool(found > 0)

    def _launched(
        self, kernel: Callable[..., None], done: int, common: IntArray, *given: Any
    ) -> IntArray | None:
        """Control array of a launch that came to its end, ``done``; or None, and the same on all.

        ``common`` is the control array of all. Others do not wait for who is busy, or fails here.
        """
        control, why = new_control(), meeting.GIVEN_UP
        try:
            if not self._team.try_launch(kernel, control, *given):
                why = meeting.BUSY
        finally:
            is_done = control[OPERATION] == done
            if not is_done and common[GENERATION] >= 0:
                # Nobody has passed the last barrier, or will.
                common[GENERATION] = why
        if is_done:
            self._failures = 0
            return control
        self._failures += int(common[GENERATION] != meeting.BUSY)
        return None


def waits_of(threads: int) -> meeting.Waits:
    """How all ranks together, which have ``threads``, wait for each other."""
    # Workers may be bound to cores of their own.
    are_crowded = meeting.FUTEX is not None and threads > (os.cpu_count() or 1)
    return meeting.Waits(meeting.PATIENCE_S, are_crowded)
