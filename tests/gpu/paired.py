"""Ranks of two devices that take every step together, and must find the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.types import AnyArray


def alike(a: AnyArray, b: AnyArray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def by_first(*columns: AnyArray) -> list[AnyArray]:
    """The columns in the order of the first, ties in that of the second; a key once each."""
    order = np.lexsort(columns[::-1])
    first = columns[0][order]
    keep = np.ones(len(first), bool)
    keep[1:] = first[1:] != first[:-1]
    return [column[order][keep] for column in columns]


def listed_alike(cpu: Sequence[AnyArray], cuda: Sequence[AnyArray]) -> None:
    """The same keys, with their smallest values; on the device each key stands there once."""
    for a, b in zip(by_first(*cpu), by_first(*cuda), strict=True):
        alike(a, b)
    assert len(np.unique(cuda[0])) == len(cuda[0])


class PairedBfsShared:
    def __init__(self, cpu: Any, cuda: Any) -> None:
        self.cpu, self.cuda = cpu, cuda

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        self.cpu.merge(payloads)
        self.cuda.merge(payloads)
        for name in ("frontier", "visited"):
            alike(getattr(self.cpu, name), getattr(self.cuda, name).get().view(np.uint64))


class PairedBfsRank:
    def __init__(self, cpu: Any, cuda: Any) -> None:
        self.cpu, self.cuda = cpu, cuda
        assert (cpu.vertices, cpu.arcs) == (cuda.vertices, cuda.arcs)
        self.vertices, self.arcs = cuda.vertices, cuda.arcs

    def start(self, root: int) -> None:
        self.cpu.start(root)
        self.cuda.start(root)

    def frontier(self) -> tuple[int, int, AnyArray]:
        a, b = self.cpu.frontier(), self.cuda.frontier()
        assert a[:2] == b[:2]
        alike(a[2], b[2])
        return b

    def push(self, shared: PairedBfsShared) -> tuple[AnyArray, AnyArray, int]:
        self.cuda.begin_push()
        a, parts = self.cpu.push(shared.cpu), [self.cuda.push(shared.cuda)]
        while self.cuda.is_pushing:
            parts.append(self.cuda.push(shared.cuda))
        b = [np.concatenate(column) for column in list(zip(*parts, strict=True))[:2]]
        if len(parts) > 1:  # a target may stand in more than one
            b = by_first(*b)
        listed_alike(a[:2], b)
        examined = sum(part[2] for part in parts)
        assert a[2] == examined
        return b[0], b[1], examined

    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        self.cpu.claim(target, parent)
        self.cuda.claim(target, parent)

    def pull(self, shared: PairedBfsShared) -> int:
        a, b = self.cpu.pull(shared.cpu), self.cuda.pull(shared.cuda)
        assert a == b
        return b

    def tree(self, *course: Sequence[int]) -> BfsTree:
        a, b = self.cpu.tree(*course), self.cuda.tree(*course)
        for name in ("parent", "level", "level_vertices", "level_arcs", "level_direction"):
            alike(getattr(a, name), getattr(b, name))
        return b


class PairedSsspShared:
    def __init__(self, cpu: Any, cuda: Any) -> None:
        self.cpu, self.cuda = cpu, cuda

    def __getattr__(self, name: str) -> Any:
        a, b = getattr(self.cpu, name), getattr(self.cuda, name)
        assert type(a) is type(b)
        assert a == b
        return b

    def bound_above(self, step: float) -> float:
        a, b = self.cpu.bound_above(step), self.cuda.bound_above(step)
        assert type(a) is type(b)
        assert a == b
        return b

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        self.cpu.merge(payloads)
        self.cuda.merge(payloads)
        alike(self.cpu.distance, self.cuda.distance.get())
        alike(self.cpu.waiting, self.cuda.waiting.get().view(np.uint64))
        improved = np.sort(self.cuda.improved.get())
        assert np.sort(self.cpu.improved).tolist() == improved.tolist()
        assert (self.smallest, self.low) == (self.cuda.smallest, self.cuda.low)


class PairedSsspRank:
    def __init__(self, cpu: Any, cuda: Any) -> None:
        self.cpu, self.cuda = cpu, cuda
        assert (cpu.vertices, cpu.arcs) == (cuda.vertices, cuda.arcs)
        self.vertices, self.arcs = cuda.vertices, cuda.arcs

    def start(self) -> None:
        self.cpu.start()
        self.cuda.start()

    def survey(self) -> Any:
        assert self.cpu.survey() == self.cuda.survey()
        return self.cuda.survey()

    def _payloads(self, a: tuple[AnyArray, ...], b: tuple[AnyArray, ...]) -> None:
        listed_alike(a[:2], b[:2])
        alike(a[2], b[2])

    def nothing(self, smallest: float) -> Any:
        a, b = self.cpu.nothing(smallest), self.cuda.nothing(smallest)
        self._payloads(a, b)
        return b

    def seed(self, root: int) -> Any:
        a, b = self.cpu.seed(root), self.cuda.seed(root)
        self._payloads(a, b)
        return b

    def drop_pending(self) -> None:
        self.cpu.drop_pending()
        self.cuda.drop_pending()

    def push(self, shared: PairedSsspShared, bound: float) -> Any:
        a, b = self.cpu.push(shared.cpu, bound), self.cuda.push(shared.cuda, bound)
        listed_alike(a[0][:2], b[0][:2])
        if len(b[0][0]) == 0:  # else nobody asks for what is left
            alike(a[0][2], b[0][2])
        assert a[1:] == b[1:]
        return b

    def pull(self, shared: PairedSsspShared, final: float, floor: float) -> Any:
        a, b = (d.pull(s, final, floor) for d, s in self._both(shared))
        self._payloads(a[0], b[0])
        assert a[1:] == b[1:]
        return b

    def find_parents(self, shared: PairedSsspShared, root: int) -> tuple[AnyArray, int]:
        a, b = (d.find_parents(s, root) for d, s in self._both(shared))
        listed_alike(a[:1], b[:1])
        assert a[1] == b[1]
        return b

    def resolve(self, shared: PairedSsspShared) -> AnyArray:
        a, b = (d.resolve(s) for d, s in self._both(shared))
        listed_alike([a], [b])
        return b

    def distances(self, shared: PairedSsspShared) -> AnyArray:
        a, b = (d.distances(s) for d, s in self._both(shared))
        alike(a, b)
        return b

    def overflowed(self, shared: PairedSsspShared) -> bool:
        a, b = (d.overflowed(s) for d, s in self._both(shared))
        assert a is b
        return b

    def refuse_overflow(self) -> None:
        self.cuda.refuse_overflow()

    def tree(self, shared: PairedSsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        a, b = (d.tree(s, phase_arcs) for d, s in self._both(shared))
        alike(a.parent, b.parent)
        alike(a.distance, b.distance)
        return b

    def _both(self, shared: PairedSsspShared) -> list[tuple[Any, Any]]:
        return [(self.cpu, shared.cpu), (self.cuda, shared.cuda)]


class PairedDevice:
    """Makes ranks of two devices."""

    def __init__(self, cpu: Any, cuda: Any) -> None:
        self.cpu, self.cuda = cpu, cuda

    def bfs_rank(self, shard: Any) -> PairedBfsRank:
        return PairedBfsRank(self.cpu.bfs_rank(shard), self.cuda.bfs_rank(shard))

    def bfs_shared(self, *sizes: int) -> PairedBfsShared:
        return PairedBfsShared(self.cpu.bfs_shared(*sizes), self.cuda.bfs_shared(*sizes))

    def sssp_rank(self, shard: Any) -> PairedSsspRank:
        return PairedSsspRank(self.cpu.sssp_rank(shard), self.cuda.sssp_rank(shard))

    def sssp_shared(self, *sizes: Any) -> PairedSsspShared:
        return PairedSsspShared(self.cpu.sssp_shared(*sizes), self.cuda.sssp_shared(*sizes))
