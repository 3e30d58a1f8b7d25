"""Searches from many sources of graphs whose arcs do not fit memory, or a device's."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.dealt import light_rows
from ooc_graph.kernels.common.decisions import hubs_are_large
from ooc_graph.kernels.common.sssp.distances import distances_of, require_fit
from ooc_graph.kernels.common.sssp.rows import first_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many.choice import single_searches_pay
from ooc_graph.kernels.cpu.many.johnson import reweighted_rows
from ooc_graph.kernels.cpu.store.one_by_one import TierSingly
from ooc_graph.layout.names import APSP, LIGHT, MULTI_SOURCE_BFS, OUT, id_dtype
from ooc_graph.memory.cpu.plan import Facts, Plan, least_bytes, plan_disk
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.warmup import TIERS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import Tiered, TierSearch, bind_sides, load_side
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.types import Shard

_WIDER_STATE_BYTES = 64  # a vertex, of a CUDA device's searches with weights of 64 bits
KERNELS = (APSP, MULTI_SOURCE_BFS)


ONE_BY_ONE, BATCHES = "one by one", "batches"
"""Methods: single searches one after another, and passes over arcs that serve many sources."""


def methods_of(graph: Graph, kernel: str) -> tuple[str, ...]:
    """Methods that will do, the faster one first.

    A single search needs weights of 0 or more. It reads few arcs where hubs hold much of a graph,
    and takes 16 bytes of a row's state, where the least batch takes 144.
    """
    if kernel == MULTI_SOURCE_BFS:
        return (ONE_BY_ONE,)
    if graph.has_negative_weights:
        return (BATCHES,)
    if hubs_are_large(graph.head_share(first_rows(graph.rows))):
        return (ONE_BY_ONE,)
    return BATCHES, ONE_BY_ONE


def takes_one_by_one(graph: Graph, kernel: str, row_bytes: int, budget_bytes: int) -> bool:
    """Whether searches one by one beat batches that would fit.

    They do in a long thin graph, if all of its arcs fit ``budget_bytes`` beside the
    answers. With few of them missing they read the store again and again, each source for itself,
    and batches win by far. ``row_bytes`` is what a row's distances take in the largest batch.
    """
    if ONE_BY_ONE not in methods_of(graph, kernel):
        return False
    facts = known_facts(graph, kernel, ONE_BY_ONE)
    if not single_searches_pay(graph.rows, facts.sides[0].arcs, row_bytes):
        return False
    if budget_bytes < least_bytes(facts):
        return False
    return plan_disk(facts, budget_bytes).head_arcs == facts.arcs


def single_of(kernel: str) -> str:
    """The search from one source that a kernel of many sources repeats."""
    return "bfs" if kernel == MULTI_SOURCE_BFS else "sssp"


def known_facts(graph: Graph, kernel: str, method: str) -> Facts:
    """What a plan depends on; reads the graph's offsets once."""
    facts = cpu_disk.known_facts(graph, single_of(kernel))
    if method != BATCHES:
        return facts
    # Distances are pushed: in-arcs are not looked at.
    return replace(facts, kernel=APSP, sides=facts.sides[:1])


def note_before(graph: Graph, kernel: str, method: str, budget_bytes: int, batch_size: int) -> str:
    """What is said before many sources are searched from with arcs in the store."""
    plan = plan_disk(known_facts(graph, kernel, method), budget_bytes)
    how = f"in batches of {batch_size} sources" if method == BATCHES else ONE_BY_ONE
    share = 100 * plan.head_arcs / max(plan.facts.arcs, 1)
    return (
        f"{kernel} leaves arcs in the store, holds {share:.1f} % of those that it looks at in "
        f"memory ({plan.rule} of each row), and searches {how}"
    )


def load_within(
    graph: Graph, kernel: str, method: str, budget_bytes: int, device: CpuDevice
) -> TierSearch:
    """Bring what a budget beside batches has room for into memory; find potentials if need be."""
    if method == BATCHES:
        warm(APSP, graph, device, variant=TIERS)
        plan = plan_disk(known_facts(graph, kernel, method), budget_bytes)
        return _load_batches(graph, plan, device)
    single = single_of(kernel)
    warm(single, graph, device, variant=TIERS)
    loaded = cpu_disk.load_within(graph, single, budget_bytes, device)
    found: TierSearch = singly(loaded, graph, kernel)
    return found


def _load_batches(graph: Graph, plan: Plan, device: CpuDevice) -> TierSearch:
    def load(name: str, undo: ExitStack) -> Tiered:
        return load_side(graph, name, LIGHT, plan, undo)

    def bind(out: Tiered, _into: Tiered) -> Any:
        return device.tier_apsp(out.rows, out.heaviest)

    loaded = bind_sides((OUT,), load, bind)
    give_back_freed_memory()
    return TierSearch(*loaded, plan)


def singly(loaded: Any, graph: Graph, kernel: str) -> Any:
    """Many sources one after the other by a search of one source, wherever its rows are.

    Paths that might not fit the distances' type are refused by the bounds of batches; a search with
    arcs in the store is closed then.
    """
    is_stored = isinstance(loaded, TierSearch)
    dtype, search = np.dtype(np.int32), loaded.search if is_stored else loaded
    try:
        if single_of(kernel) == "sssp":
            dtype = distances_of(graph.weight_dtype)
            sides = loaded.sides if is_stored else (search,)
            require_fit(max(side.heaviest for side in sides), graph.rows, dtype, None)
        found = TierSingly(search, graph.rows, dtype, id_dtype(graph.rows))
        return replace(loaded, search=found) if is_stored else found
    except BaseException:
        if is_stored:
            loaded.close()
        raise


def is_reweighted(graph: Graph, kernel: str) -> bool:
    """Whether potentials must make the weights 0 or more before single searches take them."""
    return kernel == APSP and graph.has_negative_weights


def reweighted_device_bytes(graph: Graph, kernel: str) -> int:
    """Device memory that such weights take beside the stored ones' bytes."""
    if not is_reweighted(graph, kernel) or graph.weight_dtype is None:
        return 0
    wider = max(distances_of(graph.weight_dtype).itemsize - graph.weight_dtype.itemsize, 0)
    # Weights that are wider than the stored ones are searched by kernels with more state.
    return graph.stored_arcs * wider + (graph.rows * _WIDER_STATE_BYTES if wider else 0)


def reweighted_on_device(shard: Shard, graph: Graph, device: Any) -> TierSingly:
    """As `singly`, over light rows in host memory, with weights of any sign."""
    found, dtype = reweighted_rows(*light_rows(shard)), distances_of(graph.weight_dtype)
    search = device.sssp(replace(shard, out_light=found.out, into_light=found.into))
    require_fit(search.heaviest, graph.rows, dtype, found.longest)
    potential = found.potentials.potential
    return TierSingly(search, graph.rows, dtype, id_dtype(graph.rows), potential)
