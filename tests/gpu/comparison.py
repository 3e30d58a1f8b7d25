"""Searches on both devices, compared byte for byte."""

from __future__ import annotations

from functools import cache

from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import AnyArray, Rows, Shard
from tests.gpu.graphs import GRAPHS, typed

CPU = CpuDevice(2)


@cache
def graph(name: str, weights: str = "float32") -> Shard:
    """One of `GRAPHS` with weights of one of `WEIGHTS`."""
    return typed(GRAPHS[name](), weights).shards(1)[0]


def hub_sides(shard: Shard) -> tuple[Rows, Rows]:
    into = shard.into_hub if shard.directed else shard.out_hub
    assert shard.out_hub is not None
    assert into is not None
    return shard.out_hub, into


def light_sides(shard: Shard) -> tuple[Rows, Rows, AnyArray]:
    into = shard.into_light if shard.directed else shard.out_light
    assert shard.out_light is not None
    assert into is not None
    return shard.out_light, into, shard.tuples


def _same_arrays(device: object, cpu: object, names: tuple[str, ...]) -> None:
    for name in names:
        found, expected = getattr(device, name), getattr(cpu, name)
        assert found.dtype == expected.dtype, name
        assert found.tobytes() == expected.tobytes(), name


def same_bfs(device: BfsTree, cpu: BfsTree) -> None:
    _same_arrays(device, cpu, ("parent", "level"))
    assert device.level_vertices.tolist() == cpu.level_vertices.tolist()
    assert len(device.level_arcs) == len(device.level_direction) == len(cpu.level_vertices)
    for name in ("level_vertices", "level_arcs", "level_direction"):
        assert getattr(device, name).dtype == getattr(cpu, name).dtype


def same_sssp(device: SsspTree, cpu: SsspTree) -> None:
    _same_arrays(device, cpu, ("distance", "parent"))
    assert device.phase_arcs.keys() == cpu.phase_arcs.keys()


def compare_bfs(shard: Shard, from_: list[int]) -> None:
    search, cpu = CudaBfsSearch(*hub_sides(shard)), CPU.bfs(shard)
    for root in from_:
        same_bfs(search.run(root), cpu.run(root))


def compare_sssp(shard: Shard, from_: list[int]) -> CudaSsspSearch:
    """Compare, and give the search for more questions."""
    search, cpu = CudaSsspSearch(*light_sides(shard)), CPU.sssp(shard)
    for root in from_:
        same_sssp(search.run(root), cpu.run(root))
    return search
