"""States of ranks in a partial store: written now and then, and read by the next attempt.

Each rank writes its own. A state counts if those of all ranks are there, as they were written, and
agree; of these the newest is gone on from, by any number of ranks.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.layout.checkpoints import SPILL, Checkpoint, Checkpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.spilled import SpillWriter
from ooc_graph.traverse.states import State, States
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing

LEAST_S = 5.0
"""No state is written sooner after the last one, or the beginning."""
TIMES = 33
"""Times as long as it takes to write a state is the time until the next."""
ROW_BYTES, BYTES_PER_S = 12, 100e6
"""How long the first is taken to be written: bytes of a row, and what a disk is sure to do."""

_LOG = logging.getLogger("ooc_graph")


class _Name(NamedTuple):
    number: int
    rank: int
    ranks: int

    def __str__(self) -> str:
        return f"state-{self.number}-{self.rank}-of-{self.ranks}"

    @classmethod
    def of(cls, name: str) -> _Name:
        """Undo `__str__`."""
        _, number, rank, _, ranks = name.split("-")
        return cls(int(number), int(rank), int(ranks))


def _names(checkpoints: Checkpoints) -> list[_Name]:
    return [_Name.of(name) for name in checkpoints.names("state-")]


@dataclass(frozen=True)
class Before:
    """What earlier attempts left: the state of all ranks, if there is one, by rank.

    States from ``number`` on have not been written yet.
    """

    number: int = 0
    states: tuple[Checkpoint, ...] = ()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What all ranks knew."""
        return self.states[0].facts

    def of_rank(self, folder: Path, dealing: Dealing) -> State:
        """What was known of the rows of one rank, of as many as there are now."""
        columns = zip(*(state.entries for state in self.states), strict=True)
        arrays = [
            _dealt_anew([_mapped(folder, entry, dtype) for entry in entries], dealing)
            for entries, dtype in zip(columns, self.facts["dtypes"], strict=True)
        ]
        return State(deepcopy(self.facts["state"]), tuple(arrays), dealing)


NOTHING = Before()
"""Of a search that has no attempt behind it."""


def before(checkpoints: Checkpoints) -> Before:
    """What is there of earlier attempts; what is damaged or was not finished is left out."""
    by_attempt, number = defaultdict[tuple[int, int], list[_Name]](list), 0
    for name in _names(checkpoints):
        by_attempt[name.number, name.ranks].append(name)
        number = max(number, name.number + 1)
    for (_, ranks), names in sorted(by_attempt.items(), reverse=True):
        if len(names) < ranks:
            continue
        found = [checkpoints.found(str(name)) for name in sorted(names)]
        states = tuple(state for state in found if state is not None)
        if len(states) == ranks and all(state.facts == states[0].facts for state in states):
            return Before(number, states)
    return Before(number)


def _mapped(folder: Path, entry: FileEntry, dtype: str) -> AnyArray:
    if not entry.size:
        return np.empty(0, dtype)
    return np.memmap(folder / entry.path, dtype, "r")


def _dealt_anew(parts: Sequence[AnyArray], dealing: Dealing) -> AnyArray:
    """Values of one rank's rows, from those of all ranks when they were so many as ``parts``."""
    own = np.empty(dealing.rows, parts[0].dtype)
    for begin in range(0, dealing.rows, DEAL_BLOCK):
        block = begin // DEAL_BLOCK * dealing.shards + dealing.shard
        at, part = divmod(block, len(parts))
        found = parts[part][at * DEAL_BLOCK : (at + 1) * DEAL_BLOCK]
        own[begin : begin + DEAL_BLOCK] = found
    return own


class Pace:
    """When the ranks of a process, which have so many ``rows``, write: all at once, and seldom."""

    def __init__(self, rows: int, clock: Callable[[], float] = perf_counter) -> None:
        self._clock, self._since_s = clock, clock()
        self._cost_s = rows * ROW_BYTES / BYTES_PER_S
        self._number, self._is_over, self._lock = -1, False, Lock()

    def is_due(self) -> bool:
        """Whether so much time has passed that to write a state takes a small part of it."""
        passed_s = self._clock() - self._since_s
        return not self._is_over and passed_s >= max(LEAST_S, TIMES * self._cost_s)

    def timed(self, number: int, write: Callable[[], object]) -> None:
        """Have a rank write; an error is said in the log once, and it is never time again."""
        begun_s, error = self._clock(), None
        try:
            write()
        except OSError as refused:
            error = refused
        with self._lock:
            self._since_s = self._clock()
            # The others' part counts: ranks may write in turn.
            earlier_s = self._cost_s if number == self._number else 0.0
            self._cost_s, self._number = earlier_s + self._since_s - begun_s, number
            if error is not None and not self._is_over:
                self._is_over = True
                _LOG.warning("no state of the search can be written any more: %s", error)


class RankStates(States):
    """Where one rank of a process writes its states: in the checkpoints of a partial store."""

    def __init__(
        self, checkpoints: Checkpoints, found: Before, dealing: Dealing, pace: Pace
    ) -> None:
        self._checkpoints, self._found = checkpoints, found
        self._dealing, self._pace, self._number = dealing, pace, found.number

    def before(self) -> State | None:
        """The state that an earlier attempt came to; None: begin at the beginning."""
        if not self._found.states:
            return None
        return self._found.of_rank(self._checkpoints.folder, self._dealing)

    def waits(self) -> int:
        """0 if it is time to write, else 1."""
        return int(not self._pace.is_due())

    def write(self, facts: dict[str, Any], *arrays: AnyArray) -> None:
        """Write a state. If that fails, no other is written, and the search goes on."""
        self._pace.timed(self._number, lambda: self._write(facts, arrays))
        self._number += 1

    def _write(self, facts: dict[str, Any], arrays: Sequence[AnyArray]) -> None:
        name = _Name(self._number, self._dealing.shard, self._dealing.shards)
        if name.rank == 0:
            # All ranks have written the last one: since then they have answered each other.
            for old in _names(self._checkpoints):
                if old.number < name.number - 1:
                    self._checkpoints.remove(str(old))

        def write(folder: Path) -> list[FileEntry]:
            entries = []
            for number, array in enumerate(arrays):
                with SpillWriter(folder, f"{SPILL}/{name}-{number}") as file:
                    file.write(array)
                entries.append(file.entry)
            return entries

        facts = {"state": facts, "dtypes": [array.dtype.str for array in arrays]}
        self._checkpoints.write(str(name), write, facts)
