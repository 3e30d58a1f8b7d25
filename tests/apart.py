"""Ranks that are each alone in a process, as far as they know: threads, which trade parcels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any

import numpy as np

from ooc_graph.exchange.interface import Superstep
from ooc_graph.exchange.parcel import Parcel
from ooc_graph.exchange.ranks import Ranks


class Apart:
    """``count`` processes of ``each`` ranks; they map common memory if it ``has_memory``."""

    def __init__(self, count: int, *, each: int = 1, has_memory: bool = True) -> None:
        self._count, self._has_memory, self.trades = count, has_memory, 0
        self._each = each
        self._barrier, self._lock = Barrier(count), Lock()
        self._sent: list[Any] = [None] * count
        self._memory: list[np.ndarray] = []

    def run(self, begin: Callable[[int, Any], Superstep[Any]], shared: Sequence[Any]) -> list[Any]:
        """Run a coroutine for each rank, given what its process shares; their results by rank."""

        def run(member: int) -> dict[int, Any]:
            made, state = 0, shared[member]

            def trade(kind: Any, parts_for: Any) -> dict[int, list[Parcel]]:
                nonlocal made
                made += 1
                return self._trade(member, made, kind, parts_for)

            joined = 0

            def common(size: int) -> np.ndarray | None:
                nonlocal joined
                joined += 1
                return self._common(joined, size)

            members = [
                list(range(one * self._each, (one + 1) * self._each)) for one in range(self._count)
            ]
            coroutines = {rank: begin(rank, state) for rank in members[member]}
            ranks = Ranks(trade, members, member, coroutines, state, common=common)
            try:
                return ranks.run()
            except BaseException:
                self._barrier.abort()
                raise
            finally:
                self.trades = made

        with ThreadPoolExecutor(self._count) as pool:
            futures = [pool.submit(run, member) for member in range(self._count)]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, BrokenBarrierError)):
            raise error
        return [found for future in futures for found in future.result().values()]

    def _trade(
        self, member: int, number: int, kind: Any, parts_for: Any
    ) -> dict[int, list[Parcel]]:
        others = [other for other in range(self._count) if other != member]
        self._sent[member] = {
            other: [
                Parcel("", 0, number, member, *place, kind, part.header, part.arrays).copied()
                for index, part in enumerate(parts)
                for place in [(index, len(parts))]
            ]
            for other in others
            for parts in [parts_for(other)]
        }
        self._barrier.wait()
        mail = {other: self._sent[other][member] for other in others}
        self._barrier.wait()
        return mail

    @property
    def memories(self) -> int:
        """How often they have mapped common memory."""
        return len(self._memory)

    def _common(self, number: int, size: int) -> np.ndarray | None:
        if not self._has_memory:
            return None
        with self._lock:
            if len(self._memory) < number:
                self._memory.append(np.zeros(size, np.uint8))
            return self._memory[number - 1]
