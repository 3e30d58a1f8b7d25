"""Which worker holds which ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

Placement = dict[str, tuple[int, ...]]


def deal(shards: int, workers: Iterable[str], previous: Mapping[str, Sequence[int]]) -> Placement:
    """Deal ranks evenly to workers; who had a rank in the attempt before keeps it.

    Without ``previous``, ranks come in consecutive ranges, workers in order of their addresses,
    so that the same workers get the same ranks in every run and find their loaded shards again.
    There is at least one worker; those beyond the number of ranks are left out.
    """
    chosen = sorted(workers, key=lambda worker: (worker not in previous, worker))[:shards]
    smaller, larger = divmod(shards, len(chosen))
    most = {w: smaller + (i < larger) for i, w in enumerate(chosen)}
    kept = {w: sorted(previous.get(w, ()))[: most[w]] for w in chosen}
    taken = {rank for ranks in kept.values() for rank in ranks}
    free = iter([rank for rank in range(shards) if rank not in taken])
    return {w: tuple(sorted([*kept[w], *islice(free, most[w] - len(kept[w]))])) for w in chosen}


@dataclass(frozen=True)
class Terms:
    """What the client gives every worker of an attempt.

    The party has address and ranks of every worker; the position in it names the worker in parcels.
    So many threads advance the ranks of one worker.
    """

    run_id: str
    attempt: int
    party: tuple[tuple[str, tuple[int, ...]], ...]
    threads: int
