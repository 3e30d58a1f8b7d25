"""States of ranks in a partial store: written now and then, and read by the next attempt.

Each rank writes its own. A state counts if those of all ranks are there, as they were written, and
agree; of these the newest is gone on from, by any number of ranks.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.layout.checkpoints import SPILL, Checkpoints
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


class _Whole(NamedTuple):
    """A state of all ranks: a number, and the token of the attempt that wrote it."""

    number: int
    attempt: str

    def __str__(self) -> str:
        return f"state-{self.number}-{self.attempt}"


class _Name(NamedTuple):
    whole: _Whole
    rank: int
    ranks: int

    def __str__(self) -> str:
        return f"{self.whole}-{self.rank}-of-{self.ranks}"

    @classmethod
    def of(cls, name: str) -> _Name:
        """Undo `__str__`."""
        _, number, attempt, rank, _, ranks = name.split("-")
        return cls(_Whole(int(number), attempt), int(rank), int(ranks))


def _names(checkpoints: Checkpoints) -> list[_Name]:
    return [_Name.of(name) for name in checkpoints.names("state-")]


def _remove(checkpoints: Checkpoints, wholes: Iterable[_Whole]) -> None:
    for whole in wholes:
        for name in checkpoints.names(f"{whole}-"):
            checkpoints.remove(name)
        # And those of a rank that was stopped before it recorded them.
        for path in (checkpoints.folder / SPILL).glob("*"):
            if path.name.startswith(f"{whole}-"):
                path.unlink(missing_ok=True)


def remove_all(checkpoints: Checkpoints) -> None:
    """Remove the states of all attempts."""
    _remove(checkpoints, {name.whole for name in _names(checkpoints)})


@dataclass(frozen=True)
class Before:
    """What earlier attempts left: the ``whole`` state of all ranks, None if there is none.

    All ranks knew its ``facts``; ``entries`` are the files of each rank. The ``attempt`` that goes
    on from it writes states from ``number`` on, a number that no other has used before. Those of a
    slow worker of an earlier one have another token.
    """

    number: int = 0
    attempt: str = ""
    whole: _Whole | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[tuple[FileEntry, ...], ...] = ()

    def of_rank(self, folder: Path, dealing: Dealing) -> State:
        """What was known of the rows of one rank, of as many as there are now."""
        columns = zip(*self.entries, strict=True)
        arrays = [
            _dealt_anew([_mapped(folder, entry, dtype) for entry in entries], dealing)
            for entries, dtype in zip(columns, self.facts["dtypes"], strict=True)
        ]
        return State(deepcopy(self.facts["state"]), tuple(arrays), dealing)


NOTHING = Before()
"""Of a search that has no attempt behind it."""


def before(checkpoints: Checkpoints) -> Before:
    """What is there of earlier attempts; what is damaged or was not finished is left out."""
    by_whole, number, attempt = defaultdict[Any, list[_Name]](list), 0, uuid.uuid4().hex[:8]
    for name in _names(checkpoints):
        by_whole[name.whole, name.ranks].append(name)
        number = max(number, name.whole.number + 1)
    for (whole, ranks), names in sorted(by_whole.items(), reverse=True):
        if len(names) < ranks:
            continue
        found = [checkpoints.found(str(name)) for name in sorted(names)]
        states = [state for state in found if state is not None]
        if len(states) == ranks and all(state.facts == states[0].facts for state in states):
            entries = tuple(state.entries for state in states)
            return Before(number, attempt, whole, states[0].facts, entries)
    return Before(number, attempt)


def _mapped(folder: Path, entry: FileEntry, dtype: str) -> AnyArray:
    if not entry.size:
        return np.empty(0, dtype)
    return np.memmap(folder / entry.path, dtype, "r")


def _dealt_anew(parts: Sequence[AnyArray], dealing: Dealing) -> AnyArray:
    """Values of one rank's rows; each of the ``parts`` was written by a rank of another attempt."""
    own = np.empty(dealing.rows, parts[0].dtype)
    for begin in range(0, dealing.rows, DEAL_BLOCK):
        block = begin // DEAL_BLOCK * dealing.shards + dealing.shard
        at, part = divmod(block, len(parts))
        found = parts[part][at * DEAL_BLOCK : (at + 1) * DEAL_BLOCK]
        own[begin : begin + DEAL_BLOCK] = found
    return own


class Pace:
    """When the ranks of a process write a state; ``rows`` are those of all of them."""

    def __init__(self, rows: int, clock: Callable[[], float] = perf_counter) -> None:
        self._clock, self._since_s = clock, clock()
        self._cost_s = rows * ROW_BYTES / BYTES_PER_S
        self._number, self._is_over, self._lock = -1, False, Lock()

    def is_due(self) -> bool:
        """Whether so much time has passed that to write a state takes a small part of it."""
        passed_s = self._clock() - self._since_s
        return not self._is_over and passed_s >= max(LEAST_S, TIMES * self._cost_s)

    def timed(self, number: int, write: Callable[[], object]) -> None:
        """Have a rank write; an error is logged once, and nothing is written from then on."""
        if self._is_over:
            return
        begun_s, error = self._clock(), None
        try:
            write()
        except (OSError, MemoryError) as refused:
            error = refused
        with self._lock:
            self._since_s = self._clock()
            # The others' part counts: ranks may write in turn.
            earlier_s = self._cost_s if number == self._number else 0.0
            self._cost_s, self._number = earlier_s + self._since_s - begun_s, number
            if error is not None and not self._is_over:
                self._is_over = True
                _LOG.warning("no state of the search can be written any more: %r", error)


class RankStates(States):
    """Where one rank of a process writes its states: in the checkpoints of a partial store.

    If it ``is_outpaced``, a search together with others ends before the first would be due.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        found: Before,
        dealing: Dealing,
        pace: Pace,
        *,
        is_outpaced: bool = False,
    ) -> None:
        self.writes = found.whole is not None or not is_outpaced
        self._checkpoints, self._found = checkpoints, found
        self._dealing, self._pace, self._number = dealing, pace, found.number
        # The last one that is known to be whole, at the time that the next is written.
        self._kept = found.whole

    def before(self) -> State | None:
        """The state that an earlier attempt came to; None: begin at the beginning."""
        if self._found.whole is None:
            return None
        return self._found.of_rank(self._checkpoints.folder, self._dealing)

    def waits(self) -> int:
        """0 if it is time to write, else 1."""
        return int(not self._pace.is_due())

    def write(self, facts: dict[str, Any], made: Callable[[], Sequence[AnyArray]]) -> None:
        """Write a state. If that fails, no other is written, and the search goes on."""
        whole = _Whole(self._number, self._found.attempt)
        self._pace.timed(whole.number, lambda: self._write(whole, facts, made))
        self._number += 1

    def _write(
        self, whole: _Whole, facts: dict[str, Any], made: Callable[[], Sequence[AnyArray]]
    ) -> None:
        name = _Name(whole, self._dealing.shard, self._dealing.shards)
        if name.rank == 0:
            # All ranks have written the last one: since then they have answered each other. A slow
            # worker of an earlier attempt spares what was written later.
            others = {other.whole for other in _names(self._checkpoints)} - {self._kept}
            _remove(self._checkpoints, (one for one in others if one.number < whole.number))
        dtypes: list[str] = []

        def write(folder: Path) -> list[FileEntry]:
            entries = []
            for number, array in enumerate(made()):
                with SpillWriter(folder, f"{SPILL}/{name}-{number}") as file:
                    file.write(array)
                entries.append(file.entry)
                dtypes.append(array.dtype.str)
            return entries

        try:
            self._checkpoints.write(str(name), write, {"state": facts, "dtypes": dtypes})
        except (OSError, MemoryError):
            # It will not be whole, and others may need the space.
            with suppress(OSError):
                _remove(self._checkpoints, [whole])
            raise
        self._kept = whole
