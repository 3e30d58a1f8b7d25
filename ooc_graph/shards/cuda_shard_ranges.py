"""Which rows are written by one task of a build on CUDA devices: whole shards, dealt by arcs.

Shards of all sides stand in one row, side after side: shard s of side k has number k * shards + s.
Arrays of a shard begin anew, so that whoever writes whole shards writes whole chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ooc_graph.shards.cuda_plan import runs_pay

MOST_ARCS = 1 << 30
"""Arcs of a task, about, if its shards are no larger: so much is lost with a worker. The device
waits for the disk at the end of each task."""
PREFIX = "rows-"
"""How the names of their checkpoints begin."""

Span = tuple[str, int, int]
"""A side, and its shards from one to before another."""


@dataclass(frozen=True, order=True)
class ShardRange:
    """Consecutive shards, from the number ``first`` to before ``stop``."""

    first: int
    stop: int

    @property
    def name(self) -> str:
        """Name of its checkpoint."""
        return f"{PREFIX}{self.first:07d}-{self.stop:07d}"

    def spans(self, sides: Iterable[str], shards: int) -> list[Span]:
        """Its shards of each side."""
        found = []
        for number, side in enumerate(sides):
            low, high = (
                min(max(at - number * shards, 0), shards) for at in (self.first, self.stop)
            )
            if low < high:
                found.append((side, low, high))
        return found


@dataclass(frozen=True)
class Fit:
    """Arcs that a device makes rows of at a time: ``most`` fit, and a row has up to ``longest``.

    At least ``by_pass`` are wanted if all tuples are passed over for them, ``from_runs`` if they
    come from sorted runs. ``pass_bytes`` is the cost of a pass for a tuple, as of `runs_pay`;
    ``arc_bytes`` are those of an arc in a run. ``run_edges`` are tuples of a run, 0 if none can be
    made.
    """

    most: int
    longest: int
    by_pass: int
    from_runs: int
    pass_bytes: float
    arc_bytes: int
    run_edges: int

    def ranges(self, arcs: int, wanted: int) -> int:
        """Ranges that rows of so many arcs are made in, if ``wanted`` are, or a bit more."""
        if not arcs:
            return 0
        # Rounded down, so that tasks of their own make no more of them than all rows together.
        return max(-(-arcs // self.most), arcs // wanted, 1)

    def range_arcs(self, arcs: int, wanted: int) -> int:
        """Arcs of each of these ranges, at most."""
        if not arcs:
            return 0
        # A range ends with a row.
        return min(self.most, -(-arcs // self.ranges(arcs, wanted)) + self.longest)

    def passes(self, arcs: Iterable[int]) -> int:
        """Passes over the tuples for rows of so many arcs, which have none in common."""
        return sum(self.ranges(some, self.by_pass) for some in arcs)

    def runs_pay(self, passes: int, part: float) -> bool:
        """Whether runs cost less than so many passes, for one part of all arcs."""
        return self.run_edges > 0 and runs_pay(passes, self.pass_bytes, self.arc_bytes * part)


def shard_ranges_of(names: Iterable[str]) -> list[ShardRange]:
    """Ranges of shards whose checkpoints have these names."""
    bounds = (name.removeprefix(PREFIX).split("-") for name in names)
    return sorted(ShardRange(int(first), int(stop)) for first, stop in bounds)


def apart(found: Iterable[ShardRange]) -> list[ShardRange]:
    """Those of some that have no shard in common with one before.

    One whose files were damaged is made anew, perhaps by others, and then its files are there.
    """
    chosen: list[ShardRange] = []
    for some in sorted(found):
        if not chosen or some.first >= chosen[-1].stop:
            chosen.append(some)
    return chosen


def dealt(
    shard_arcs: Sequence[int],
    sides: Sequence[str],
    done: Iterable[ShardRange],
    fit: Fit,
    processes: int,
) -> list[ShardRange]:
    """Tasks for all shards but those that are ``done``, about as much for each process.

    If there is one process, it makes no more passes over the tuples than if it did everything at
    once; a shard with more arcs than fit takes several, whoever writes it.
    """
    arcs = [*shard_arcs] * len(sides)

    def passes(some: Iterable[ShardRange]) -> int:
        spans = (span for one in some for span in one.spans(sides, len(shard_arcs)))
        return fit.passes(sum(shard_arcs[low:high]) for _, low, high in spans)

    whole = list(_left(len(arcs), done))
    wanted = sum(sum(arcs[some.first : some.stop]) for some in whole)
    part = wanted / processes / max(1, sum(arcs))
    if fit.runs_pay(-(-passes(whole) // processes), part):
        # A task has one pass and its runs, so there are no more tasks than it takes.
        return _divided(whole, arcs, processes)
    rounds = max(1, -(-wanted // (processes * MOST_ARCS)))
    found = _divided(whole, arcs, rounds * processes)
    return whole if processes == 1 and passes(found) > passes(whole) else found


def _left(shards: int, done: Iterable[ShardRange]) -> Iterator[ShardRange]:
    """What is not done of all shards."""
    first = 0
    for some in sorted(done):
        if first < some.first:
            yield ShardRange(first, some.first)
        first = max(first, some.stop)
    if first < shards:
        yield ShardRange(first, shards)


def _divided(whole: list[ShardRange], arcs: Sequence[int], most: int) -> list[ShardRange]:
    """At most so many tasks, if there may be so few, of which the largest is as small as can be."""

    def tasks(most_arcs: int) -> list[ShardRange]:
        return [task for some in whole for task in _cut(some, arcs, most_arcs)]

    low, high = 0, sum(arcs)
    while low < high:
        middle = (low + high) // 2
        if len(tasks(middle)) <= most:
            high = middle
        else:
            low = middle + 1
    return tasks(high)


def _cut(whole: ShardRange, arcs: Sequence[int], most: int) -> Iterator[ShardRange]:
    """Ranges of shards of at most so many arcs, of one shard at least."""
    first, filled = whole.first, 0
    for shard in range(whole.first, whole.stop):
        if shard > first and filled + arcs[shard] > most:
            yield ShardRange(first, shard)
            first, filled = shard, 0
        filled += arcs[shard]
    yield ShardRange(first, whole.stop)
