"""Devices make what their protocol lists, and what they make does what its protocol says."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from typing import Any, get_type_hints

import pytest

from ooc_graph.kernels.common.components import ComponentsRank, ComponentsShared
from ooc_graph.kernels.common.device import (
    BfsPartsRank,
    BfsRank,
    BfsSearch,
    BfsShared,
    Device,
    SsspInnerRank,
    SsspRank,
    SsspSearch,
)
from ooc_graph.kernels.common.sssp.owned import OwnedSsspRank
from ooc_graph.kernels.cpu import device as cpu
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.sssp.rank import CpuSsspRank
from ooc_graph.kernels.cuda.device import CudaDevice

BOTH = pytest.mark.parametrize("device", [CpuDevice, CudaDevice])
SEARCHES = {"tier_bfs": BfsSearch, "tier_sssp": SsspSearch}
MORE = {
    CpuDevice: {
        **SEARCHES,
        "tier_bfs_rank": BfsPartsRank,
        "tier_sssp_rank": SsspRank,
        "owned_sssp_rank": OwnedSsspRank,
        "components_rank": ComponentsRank,
        "components_shared": ComponentsShared,
        "edges_bfs": BfsSearch,
        "edges_sssp": SsspSearch,
    },
    CudaDevice: {
        **SEARCHES,
        "tier_near": SsspSearch,
        **dict.fromkeys(("bfs_rank", "tier_bfs_rank", "store_bfs_rank"), BfsPartsRank),
        "owned_sssp_rank": OwnedSsspRank,
    },
}
"""What a device makes beyond what all make."""


def members(cls: type) -> set[str]:
    """Public names of a class, those of its instances included where they are annotated."""
    annotated = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", {})}
    return {name for name in {*dir(cls), *annotated} if not name.startswith("_")}


def returned(function: Any) -> Any:
    """What a function is annotated to return."""
    return get_type_hints(function, localns=names_for_types()).get("return")


@cache
def names_for_types() -> dict[str, Any]:
    """What the CPU's device imports for type checkers alone."""
    (block,) = [node for node in ast.parse(inspect.getsource(cpu)).body if isinstance(node, ast.If)]
    found: dict[str, Any] = {}
    exec(ast.unparse(block.body), found)
    return found


def accepts(made: Any, contract: Any) -> list[str]:
    """Why ``made`` cannot be called as ``contract`` says; nothing if it can."""
    wanted, found = (inspect.signature(f).parameters for f in (contract, made))
    optional, known = (
        {n for n, p in ps.items() if p.default is not p.empty} for ps in (wanted, found)
    )
    reasons = [f"lacks {name}" for name in wanted if name not in found]
    reasons += [f"wants {name}" for name in found if name not in known | (set(wanted) - optional)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    placed, order = ([n for n, p in ps.items() if p.kind is kind] for ps in (wanted, found))
    if not reasons and order[: len(placed)] != placed:
        reasons.append(f"takes {order} by place, not {placed}")
    return reasons


def lacking(made: type, protocol: type) -> list[str]:
    """What a class lacks of a protocol's methods and properties."""
    reasons = []
    for name in sorted(members(protocol)):
        contract, found = (inspect.getattr_static(cls, name, None) for cls in (protocol, made))
        if not callable(contract):
            # Attributes may be set when it is made: then the source of a class sets them.
            sources = (inspect.getsource(base) for base in made.__mro__[:-1])
            is_set = found is not None or any(f"self.{name}" in source for source in sources)
            reasons += [] if is_set else [f"{made.__name__} has no {name}"]
        elif found is None:
            reasons.append(f"{made.__name__} has no {name}")
        else:
            reasons += [f"{made.__name__}.{name} {why}" for why in accepts(found, contract)]
    return reasons


@BOTH
def test_devices_make_what_their_protocol_lists(device: type) -> None:
    assert not lacking(device, Device)


@BOTH
def test_what_devices_make_does_what_its_protocol_says(device: type) -> None:
    listed = {name: returned(inspect.getattr_static(Device, name)) for name in members(Device)}
    checked = 0
    for name, wanted in (listed | MORE[device]).items():
        if inspect.isclass(wanted) and getattr(wanted, "_is_protocol", False):
            made = returned(getattr(device, name))
            assert made is wanted or not lacking(made, wanted), name
            checked += made is not wanted
    assert checked >= 9


def test_ranks_of_the_cpu_push_the_inner_vertices() -> None:
    assert not lacking(CpuSsspRank, SsspInnerRank)


def test_a_device_that_lacks_something_is_found_out() -> None:
    class Lacks:
        def merge(self) -> None: ...

    class Wants:
        def merge(self, payloads: Any, more: Any) -> None: ...

    assert lacking(Lacks, BfsShared) == ["Lacks.merge lacks payloads"]
    assert lacking(Wants, BfsShared) == ["Wants.merge wants more"]
    assert "Lacks has no tree" in lacking(Lacks, BfsRank)
