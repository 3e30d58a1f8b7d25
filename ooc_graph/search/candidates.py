"""Strategies in the order in which they are tried: of one source and of components; of many.

CUDA comes first. On each device, strategies that keep more in memory come first, since they are
faster. Ranks on CUDA devices are tried if one device has no room, not even with rows in pinned
memory: ranks that have their rows on the devices, then ranks that have them in pinned memory. Ranks
on the CPU are tried if no worker has room for all rows. Ranks that leave arcs in the store come
after one process that does, which is faster on the CPU. Many sources share each look at an arc in
batches. On a CUDA device they are searched one by one if there is no room for that.
"""

from __future__ import annotations

from ooc_graph.model.request import Request
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import Strategy
from ooc_graph.strategies.cpu import in_memory as cpu_memory
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.edge_list import EdgeList
from ooc_graph.strategies.many import on_disk as many_disk
from ooc_graph.strategies.many.batches import Batches
from ooc_graph.strategies.many.one_by_one import OneByOne
from ooc_graph.strategies.ranks import Ranks

CANDIDATES: tuple[Strategy, ...] = (
    cuda_memory.InMemory(),
    cuda_pinned.Pinned(),
    Ranks(cuda_memory.InMemory()),
    Ranks(cuda_pinned.Pinned()),
    cuda_disk.OnDisk(),
    Ranks(cuda_disk.OnDisk()),
    EdgeList(),
    cpu_memory.InMemory(),
    Ranks(cpu_memory.InMemory()),
    cpu_disk.OnDisk(),
    Ranks(cpu_disk.OnDisk()),
)
MANY: tuple[Strategy, ...] = (
    Batches(CUDA),
    OneByOne(cuda_memory.InMemory()),
    OneByOne(cuda_pinned.Pinned()),
    OneByOne(cuda_disk.OnDisk()),
    Batches(CPU),
    many_disk.OnDisk(),
)


def candidates(request: Request, device: str) -> list[Strategy]:
    """The strategies for a request on a device."""
    table = CANDIDATES if request.many is None else MANY
    return [strategy for strategy in table if strategy.device == device]
