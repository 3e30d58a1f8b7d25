"""What a rank may ask of the others in a superstep.

An algorithm is a generator function (a coroutine over supersteps) that runs once for every rank,
a rank being one shard, or several that are joined. It yields `Share` or `Route` and is sent `World`
or `Arrived`. All ranks yield the same kind of question in the same superstep and finish in the same
superstep.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ooc_graph.types import AnyArray


class Shared(Protocol):
    """State that the ranks of one process hold in common (a frontier bitmap, distances)."""

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take in every rank's payload, in ascending order of rank. Called once a process."""


class Joinable(Shared, Protocol):
    """State that can be one for the ranks of several processes."""

    @property
    def joined_bytes(self) -> int:
        """Memory that it takes."""

    def join(self, memory: AnyArray | None, part: int, parts: int) -> None:
        """Be the state of all ranks, in ``memory``, bytes that ``parts`` processes map.

        Each initialises its part before the next superstep. None: there is one process.
        """


@dataclass(frozen=True)
class Route:
    """Send each entry to the rank that owns its target, an internal id: (k,), any order.

    ``columns`` are arrays (k,) that travel with the targets.
    """

    target: AnyArray
    columns: tuple[AnyArray, ...] = ()


@dataclass(frozen=True)
class Arrived:
    """Answer to `Route`: what the others (and this rank) sent here, by ascending sender."""

    target: AnyArray
    columns: tuple[AnyArray, ...] = ()


@dataclass(frozen=True)
class Share:
    """Send to all ranks: integers that are summed over all ranks, and arrays.

    Every process's `Shared` merges the ``payload`` (empty tuple: only counts). With ``route``
    entries travel in the same messages. They arrive only if all ranks have a route.
    ``is_disjoint``: the payload is a bitmap, and no other that this rank shares so in a run, of the
    same length, has a bit in common with it. ``joins``: the state is `Joinable`. If all ranks say
    so, and all processes are on one host, they have one in common from then on.
    """

    counts: tuple[int, ...]
    payload: tuple[AnyArray, ...] = ()
    route: Route | None = None
    is_disjoint: bool = False
    joins: bool = False


@dataclass(frozen=True)
class World:
    """Answer to `Share`: the counts summed over all ranks; `Shared` has been updated."""

    counts: tuple[int, ...]
    arrived: Arrived | None = None


Question = Share | Route
Answer = World | Arrived
Result = TypeVar("Result")
Superstep = Generator[Question, Any, Result]


class DivergedRanksError(RuntimeError):
    """Ranks asked for different things in one superstep; the algorithm is at fault."""


def summed(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Sums of the counts that ranks share; there is one rank at least."""
    if len(counts) == 1:
        return tuple(map(int, counts[0]))
    if len({len(one) for one in counts}) > 1:
        raise DivergedRanksError(f"ranks share different numbers of counts: {list(counts)}")
    return tuple(sum(map(int, column)) for column in zip(*counts, strict=True))


@dataclass(frozen=True)
class ExchangeStats:
    """What an exchange did: supersteps, and bytes between processes, counted for each receiver.

    Of the bytes, those that went through shared memory; of ``links``, from a process to another,
    those that have it. ``seconds`` are from asking to being answered, on average of the processes:
    they contain the wait for the slowest.
    """

    supersteps: int
    bytes_sent: int
    bytes_shared: int = 0
    links: int = 0
    links_shared: int = 0
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        """How processes told each other, and how much."""
        near, far = self.links_shared > 0, self.links > self.links_shared
        by = " and ".join(["shared memory within hosts"] * near + ["Dask's connections"] * far)
        return (
            f"exchange by {by}: {self.supersteps} supersteps, {self.bytes_sent:,} bytes, "
            f"{self.seconds:.3f} s"
        )
