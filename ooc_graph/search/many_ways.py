"""On which device many sources are searched from, how, and what is tried after what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ooc_graph.answers.pairs import Asked
from ooc_graph.errors import MemoryBudgetError, OocGraphError, UsageError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.rank_memory import only_ranks
from ooc_graph.model.resources import AUTO, CPU, CUDA, Resources
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.many.dividing import Plan, fits_in_batches, plan_of
from ooc_graph.strategies.many.memory import batches_device_bytes, locked_bytes
from ooc_graph.strategies.many.singly import pinned_budget, plan_singly, stored_budgets
from ooc_graph.strategies.many.tiers import (
    ONE_BY_ONE,
    is_shifted,
    shifted_device_bytes,
    single_of,
)


@dataclass(frozen=True)
class PairsWay:
    """How many sources are searched from.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    method
        On a CUDA device ``rows``, in batches, or one by one; on the CPU its plan says.
    budget_bytes
        Device memory for searches one by one with rows in pinned host memory, or in the store; 0:
        all rows are on the device.
    why
        Why it is not the way that would be preferred; else empty.
    host_bytes
        Host memory for searches one by one with arcs in the store; None: rows are elsewhere.
    """

    device: str
    method: str = ROWS
    budget_bytes: int = 0
    why: str = ""
    host_bytes: int | None = None

    @property
    def is_one_by_one(self) -> bool:
        """Whether a CUDA device searches from one source after the other."""
        return self.device == CUDA and self.method == ONE_BY_ONE

    @property
    def said(self) -> str:
        """Where it goes, in words."""
        if self.device == CPU:
            return "on the CPU"
        if not self.is_one_by_one:
            return "in batches on the CUDA device"
        rows = "rows in pinned host memory" if self.budget_bytes else "all rows there"
        if self.host_bytes is not None:
            rows = "arcs in the store"
        return f"one by one on the CUDA device, {rows}"


def ways_for(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    measure: Callable[[], Resources],
    *,
    in_memory: bool,
) -> Iterator[PairsWay]:
    """Ways to search from many sources, in the order in which they are tried.

    With ``auto`` what no batch on the device has room for goes to the CPU, as long as that has room
    for batches; the CPU is the last way in any case.

    Parameters
    ----------
    specs
        How distances, and parents if wanted, are stored.
    measure
        Gives what there is; it is asked again before each way, as one that was tried may have cost
        a worker.
    in_memory
        Whether the answer stays in the memory of this process.

    Raises
    ------
    UsageError, DeviceError, MemoryBudgetError
        CUDA is asked for, and has no way at all.
    """
    resources = measure()
    # Without rows nothing is to be searched, and columns could be taken from none.
    if resources.device.name == CPU or not graph.rows:
        yield PairsWay(CPU, why=resources.device.why)
        return
    refused: OocGraphError | None = None
    count = 0
    for look in _LOOKS:
        given = graph, specs, asked, measure()
        way, why = _seen(look, *given, in_memory)
        refused = why or refused
        if way is not None:
            count += 1
            yield replace(way, why=str(refused or ""))
        may_leave = resources.wanted == AUTO and refused is not None and not count
        if may_leave and fits_in_batches(*given, in_memory=in_memory):
            # The CPU's batches may well be quicker than searches one by one.
            break
    if resources.wanted == AUTO:
        yield PairsWay(CPU, why=str(refused or ""))
    elif not count:
        assert refused is not None
        raise refused


def plan_by(
    way: PairsWay,
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    *,
    in_memory: bool,
) -> Plan:
    """How the sources are divided on a way; as `ways_for`.

    Raises
    ------
    MemoryBudgetError
        There is too little host memory for it.
    """
    given = graph, specs, asked, resources
    if way.is_one_by_one:
        within = way.budget_bytes, way.host_bytes
        return plan_singly(*given, *within, in_memory=in_memory)
    return plan_of(*given, way.device, in_memory=in_memory)


Look = Callable[[Graph, Sequence[ArraySpec], Asked, Resources, bool], PairsWay | None]
"""Gives a way if it may be tried; None where the kernels for it are wanting."""


def _seen(
    look: Look,
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    in_memory: bool,
) -> tuple[PairsWay | None, OocGraphError | None]:
    """A way, or why it is none."""
    try:
        return look(graph, specs, asked, resources, in_memory), None
    except (UsageError, MemoryBudgetError) as error:
        return None, error
    except MemoryError:
        said = f"{graph.path}: the system refuses the memory to read the rows' lengths"
        return None, MemoryBudgetError(said)


def _batches(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    _in_memory: bool,
) -> PairsWay | None:
    """All rows on the device, and searches that share each look at an arc."""
    if only_ranks(graph):
        raise UsageError(
            "many sources on a CUDA device need ids of 32 bits, and the graph has "
            f"{graph.rows:,} vertices with edges: use --device cpu"
        )
    needed, there = batches_device_bytes(graph, specs, asked), resources.device.memory_bytes
    if needed > there:
        raise MemoryBudgetError(
            f"many sources on {graph.path} need {needed:,} bytes of device memory in one worker, "
            f"and a worker may use {there:,}; use --device cpu"
        )
    locked, most = locked_bytes(graph, specs, asked), resources.cuda_limits.pinned_bytes
    if most is not None and locked > most:
        raise MemoryBudgetError(
            f"batches of sources on {graph.path} bring their answers to {locked:,} bytes of pinned "
            f"host memory, and {most:,} may be used; raise --host-memory"
        )
    return PairsWay(CUDA)


def _resident(
    graph: Graph,
    _specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    _in_memory: bool,
) -> PairsWay | None:
    """All rows on the device, one source after the other."""
    if only_ranks(graph):
        return None
    needed = cuda_memory.cuda_bytes(graph, single_of(asked.kernel))
    needed += shifted_device_bytes(graph, asked.kernel)
    if needed <= resources.device.memory_bytes:
        return PairsWay(CUDA, ONE_BY_ONE)
    raise MemoryBudgetError(
        f"{asked.kernel} on {graph.path} needs {needed:,} bytes of device memory in one worker, "
        f"and a worker may use {resources.device.memory_bytes:,}; use --device cpu"
    )


def _pinned(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, in_memory: bool
) -> PairsWay | None:
    """Rows in pinned host memory, one source after the other, within what the device has.

    Those of the store, whose weights such a search takes as they are.
    """
    if only_ranks(graph) or is_shifted(graph, asked.kernel):
        return None
    if not cuda_pinned.may_pin(graph, single_of(asked.kernel)):
        return None
    budget_bytes = pinned_budget(graph, specs, asked, resources, in_memory=in_memory)
    return PairsWay(CUDA, ONE_BY_ONE, budget_bytes)


def _in_store(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, in_memory: bool
) -> PairsWay | None:
    """Arcs in the store, one source after the other; of its weights, too, as they are."""
    if is_shifted(graph, asked.kernel):
        return None
    if not cuda_disk.suits(graph, single_of(asked.kernel), resources):
        return None
    device_bytes, host_bytes = stored_budgets(graph, specs, asked, resources, in_memory=in_memory)
    return PairsWay(CUDA, ONE_BY_ONE, device_bytes, host_bytes=host_bytes)


_LOOKS: tuple[Look, ...] = (_batches, _resident, _pinned, _in_store)
