"""Which strategies there are, in the order in which searches try them.

Strategies are tried in the order of tables: one for one source and for components, one for many.
CUDA comes first. On each device, strategies that keep more in memory come first, since they are
faster:

- one process or device with all rows in memory, or in pinned memory;
- ranks, if no worker or device has room for all rows;
- one process that leaves arcs in the store;
- SSSP ranks that have the distances of their own rows alone, if no worker has room for the state of
  all vertices, or if ranks are asked for: they are slower than one process;
- ranks that leave arcs in the store, and last those of them that own their distances.

PageRank needs all arcs in each pass, so strategies of its own leave them in the store. Many sources
share each look at an arc in batches. On a CUDA device they are searched one by one if there is no
room for that.

A strategy's module is imported when its turn comes: a first search in a new process needs few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ooc_graph.model.request import Request
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import Strategy
from ooc_graph.strategies.ranks import Ranks

# ruff: noqa: PLC0415


def _on_cuda() -> Iterator[Strategy]:
    from ooc_graph.strategies.cuda import in_memory, on_disk, owned, owned_on_disk, pinned

    yield in_memory.InMemory()
    yield pinned.Pinned()
    yield Ranks(in_memory.InMemory())
    yield Ranks(pinned.Pinned())
    yield on_disk.OnDisk()
    yield Ranks(owned.Owned())
    yield Ranks(owned.PinnedOwned())
    yield Ranks(on_disk.OnDisk())
    yield Ranks(owned_on_disk.OwnedOnDisk())


def _on_cpu() -> Iterator[Strategy]:
    from ooc_graph.strategies.edge_list import EdgeList

    yield EdgeList()

    from ooc_graph.strategies.cpu.in_memory import InMemory

    yield InMemory()
    yield Ranks(InMemory())

    from ooc_graph.strategies.cpu.on_disk import OnDisk

    yield OnDisk()

    from ooc_graph.strategies.cpu.owned import Owned

    yield Ranks(Owned())
    yield Ranks(OnDisk())

    from ooc_graph.strategies.cpu.owned_on_disk import OwnedOnDisk

    yield Ranks(OwnedOnDisk())

    from ooc_graph.strategies.cpu.streamed import OnStream

    yield OnStream()
    yield Ranks(OnStream())


def _many_on_cuda() -> Iterator[Strategy]:
    from ooc_graph.strategies.cuda import in_memory, on_disk, pinned
    from ooc_graph.strategies.many.batches import Batches
    from ooc_graph.strategies.many.one_by_one import OneByOne

    yield Batches(CUDA)
    yield OneByOne(in_memory.InMemory())
    yield OneByOne(pinned.Pinned())
    yield OneByOne(on_disk.OnDisk())


def _many_on_cpu() -> Iterator[Strategy]:
    from ooc_graph.strategies.many.batches import Batches

    yield Batches(CPU)

    from ooc_graph.strategies.many.on_disk import OnDisk

    yield OnDisk()


CANDIDATES: dict[str, Callable[[], Iterable[Strategy]]] = {CUDA: _on_cuda, CPU: _on_cpu}
MANY: dict[str, Callable[[], Iterable[Strategy]]] = {CUDA: _many_on_cuda, CPU: _many_on_cpu}


def candidates(request: Request, device: str) -> Iterable[Strategy]:
    """The strategies for a request on a device."""
    return (CANDIDATES if request.many is None else MANY)[device]()
