"""What ranks on the CPU have in common that search together: threads of their own, and patience."""

from __future__ import annotations

import os

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.team import Team
from ooc_graph.types import Dealing

MOST_FAILURES = 3
"""A rank that has given up so often in a row does not search together with others again."""


class TakesThreads:
    """Part of a rank that takes the threads of its process for a search together with others."""

    _dealing: Dealing
    _team: Team
    _failures = 0
    _has_team = False

    @property
    def may_meet(self) -> bool:
        """As of `PeerRank`."""
        return self._dealing.shards > 1 and self._failures < MOST_FAILURES

    def take(self) -> bool:
        """As of `PeerRank`: the process's threads."""
        self._has_team = self._has_team or self._team.take()
        return self._has_team

    def leave(self) -> None:
        """As of `PeerRank`."""
        if self._has_team:
            self._has_team = False
            self._team.give_back()


def waits_of(threads: int) -> meeting.Waits:
    """How so many threads of all ranks wait for each other."""
    # Workers may be bound to cores of their own.
    return meeting.Waits(meeting.PATIENCE_S, threads > (os.cpu_count() or 1))
