"""Strategies of searches from one source and of components, in the order in which they are tried.

Searches on a CUDA device come first. Of two strategies of a device that both fit the one that has
more where it searches is the faster; ranks on the devices of several workers search what one device
has no room for, not even with rows in pinned memory, and on the CPU what fits no worker alone.
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

CANDIDATES: tuple[Strategy, ...] = (
    cuda_memory.InMemory(),
    cuda_pinned.Pinned(),
    Ranks(CUDA),
    cuda_disk.OnDisk(),
    EdgeList(),
    cpu_memory.InMemory(),
    Ranks(CPU),
    cpu_disk.OnDisk(),
)
