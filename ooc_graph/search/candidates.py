"""Strategies of searches from one source and of components, in the order in which they are tried.

CUDA comes first. On each device, strategies that keep more in memory come first, since they are
faster. Ranks on CUDA devices are tried if one device has no room, not even with rows in pinned
memory; ranks on the CPU, if no worker has room alone.
"""

from __future__ import annotations

from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import Strategy
from ooc_graph.strategies.cpu import in_memory as cpu_memory
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.edge_list import EdgeList
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.strategies.ranks_on_disk import RanksOnDisk

CANDIDATES: tuple[Strategy, ...] = (
    cuda_memory.InMemory(),
    cuda_pinned.Pinned(),
    Ranks(CUDA),
    cuda_disk.OnDisk(),
    EdgeList(),
    cpu_memory.InMemory(),
    Ranks(CPU),
    RanksOnDisk(),
    cpu_disk.OnDisk(),
)
