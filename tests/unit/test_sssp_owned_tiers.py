"""SSSP by ranks that own their distances and leave arcs in a tier: the same bytes as in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import InputError, MemoryBudgetError
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.rows import Known, survey
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.model.resources import CPU
from ooc_graph.search import candidates
from ooc_graph.shards.tiny_tiers import bind_rows
from ooc_graph.strategies.cpu.owned_on_disk import OwnedOnDisk
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.types import Shard
from tests import local_exchange
from tests.strategies import Arcs, grid, skewed, small_arcs
from tests.unit.test_sssp import check, same
from tests.unit.test_sssp_owned import (
    DEVICE,
    MANY,
    absorbing,
    forget_and_trace,
    job_of,
    kinds_and_peak,
    made,
    overflowing_in_a_tail,
    plateaus,
    spread,
    together,
    twice,
)

SIZES = st.fixed_dictionaries(
    {
        "block_bytes": st.sampled_from([8, 16, 64]),
        "batch_blocks": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


class Tiered:
    """A device whose ranks have the heads of their rows by a rule, and all arcs in a tier.

    ``again``: they are made once, and search one graph again and again.
    """

    def __init__(self, rule: HeadRule, *, again: bool = False, **sizes: int) -> None:
        self.rule, self.sizes, self.again = rule, sizes, again
        self.ranks: dict[Any, Any] = {}
        self.owned_sssp_shared = DEVICE.owned_sssp_shared

    def owned_sssp_rank(self, shard: Shard) -> Any:
        if shard.dealing in self.ranks:
            return self.ranks[shard.dealing]
        rows = shard.out_light
        assert rows is not None
        assert rows.weights is not None
        known = Known(survey(rows, shard.tuples), rows.weights.max(initial=0))
        out = bind_rows(rows, self.rule, **self.sizes)
        rank = DEVICE.store_owned_sssp_rank(shard.dealing, out, known, directed=shard.directed)
        if self.again:
            self.ranks[shard.dealing] = rank
        return rank


TAILS = Tiered(HeadRule(1))


def searched(
    arcs: Arcs, shards: int, root: int, most: int = MANY, device: Tiered = TAILS
) -> SsspTree:
    coroutines, shared = made(arcs, shards, root, most, device=device)
    return together(arcs, local_exchange.run(coroutines, shared, shards)[0])


@pytest.mark.parametrize(
    "dtype",
    ["float32", "int64", *(pytest.param(d, marks=pytest.mark.slow) for d in ("float64", "int32"))],
)
def test_small_graphs(dtype: str) -> None:
    @settings(max_examples=100, deadline=None)
    @given(
        small_arcs(dtype),
        st.sampled_from([HeadRule(1), HeadRule(2), HeadRule(1, 2), HeadRule(ALL)]),
        SIZES,
        st.sampled_from([1, 2, 4]),
        st.sampled_from([1, 2, 5, MANY]),
        st.data(),
    )
    def run(
        arcs: Arcs, rule: HeadRule, sizes: dict[str, int], shards: int, most: int, data: Any
    ) -> None:
        root = data.draw(st.integers(0, arcs.vertices - 1))
        far = spread(arcs)
        root = int(root % 8 * 1024 + root // 8)
        check(searched(far, shards, root, most, Tiered(rule, **sizes)), far, root)

    run()


@pytest.mark.parametrize("directed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_graphs_of_many_blocks(directed: bool) -> None:
    arcs = skewed(24_000, 140_000, "float32", directed=directed, seed=3)
    search = DEVICE.sssp(arcs.shards(1)[0])
    one, eight = Tiered(HeadRule(1), again=True), Tiered(HeadRule(2, 2), again=True)
    for root in (0, arcs.vertices - 1):
        tree = search.run(root)
        for shards, most, device in ((1, 8, one), (8, 700, eight)):
            same(searched(arcs, shards, root, most, device), tree)


def test_plateaus_go_on_along_tails() -> None:
    arcs = plateaus()
    same(searched(arcs, 4, 1500, 20), DEVICE.sssp(arcs.shards(1)[0]).run(1500))
    arcs = skewed(3000, 9000, "float32", directed=False, seed=2)
    arcs = replace(arcs, weight=np.zeros_like(arcs.weight))
    tree = searched(arcs, 2, 11, 50)
    check(tree, arcs, 11)
    assert tree.phase_arcs["parents"] > 0


COMPILED_LATE = """
import numba
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.runtime.compile_ahead import Part
from ooc_graph.runtime.warmup import OWNED_TIER_RANKS, warm_part
from tests.unit.test_sssp_owned_tiers import plateaus, searched

def compiled():
    import gc
    kernels = (one for one in gc.get_objects() if type(one) is numba.core.registry.CPUDispatcher)
    return {(one.py_func.__module__, one.__name__, key) for one in kernels for key in one.overloads}

warm_part(Part("sssp", False, "uint32", "float32", OWNED_TIER_RANKS), CpuDevice(1))
before = compiled()
searched(plateaus(), 4, 1500, 20)
print(sorted({name for _, name, _ in compiled() - before}))
"""


def test_a_first_search_finds_everything_compiled() -> None:
    """The compiler takes more memory than a worker may have left."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_LATE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_absorbed_weights_make_plateaus() -> None:
    arcs, root = absorbing()
    for most in (1, MANY):
        check(searched(arcs, 8, root, most), arcs, root)


def test_overflow_is_refused() -> None:
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        searched(overflowing_in_a_tail(), 2, 0)


def test_a_search_ends_when_nothing_more_can_be_reached() -> None:
    """Also if that is known by tails alone: here of a second component."""
    arcs = grid(64, "float32")
    root = int(arcs.source[0])
    tree = searched(twice(arcs), 4, root)
    check(tree, twice(arcs), root)
    assert np.isinf(tree.distance[arcs.vertices :]).all()


# Planned, and on workers.

STRATEGY = Ranks(OwnedOnDisk())


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=4), path, shards=8)


def least_of(graph: og.Graph, **request: Any) -> int:
    with pytest.raises(MemoryBudgetError) as caught:
        STRATEGY.reserve(job_of(graph, 1 << 10, **request))
    return caught.value.least_bytes


def test_it_is_planned_if_neither_rows_nor_all_distances_fit(graph: og.Graph) -> None:
    """Of eight workers each has an eighth of the state of vertices."""
    job = job_of(graph, 1 << 10, answer_bytes=1)
    job = replace(job, resources=replace(job.resources, processes=8))
    with pytest.raises(MemoryBudgetError) as caught:
        STRATEGY.reserve(job)
    least = caught.value.least_bytes
    job = replace(job, resources=replace(job.resources, least_limit_bytes=least))
    others = [one for one in candidates.CANDIDATES[CPU]() if one != STRATEGY and not one.lacks(job)]
    assert others
    found = STRATEGY.reserve(job)
    assert (found.strategy, found.host_bytes) == ("cpu/owned disk, ranks", least)
    assert found.messages_bytes > 0


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with og.local_cluster(2) as two:
        yield two


@pytest.mark.parametrize("arrays", ["store", pytest.param("dask", marks=pytest.mark.slow)])
def test_workers_stay_within_the_budget(
    arrays: str,
    graph: og.Graph,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While they load, search, and give the answer or write it."""
    monkeypatch.setitem(candidates.CANDIDATES, CPU, lambda: [STRATEGY])
    source = int(graph.original_of()[9])
    limit = least_of(graph, on_worker=arrays == "dask")
    how: dict[str, Any] = {"memory_limit": 2 * limit, "exchange": "scheduler", "client": client}
    how |= {"arrays": arrays} if arrays == "dask" else {"out": tmp_path / "r.zarr"}
    for attempt in ("compiles", "loads"):
        client.run(forget_and_trace)
        found = og.sssp(graph, source, device="cpu", **how, overwrite=arrays == "store")
        peaks = client.run(kinds_and_peak).values()
        for kinds, peak in peaks:
            assert kinds == {"TierSearch"}
            if attempt == "loads":
                assert limit / 4 < peak <= limit
    monkeypatch.undo()
    wanted = og.sssp(graph, source, device="cpu", client=False)
    assert np.asarray(found.parent).tobytes() == wanted.parent.tobytes()
    assert np.asarray(found.distance).tobytes() == wanted.distance.tobytes()
