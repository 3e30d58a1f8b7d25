"""``plan`` of many sources: its numbers are those that a run keeps to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cpu.many import bfs_search as many_bfs_search
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.layout.stored import Stored
from ooc_graph.model import engine
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.search import many
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import batches as many_batches
from ooc_graph.strategies.many.task import Division, ManyTask
from tests.command_line import Ended, call
from tests.made_up_device import MadeUp, build_hubs, put_in_place
from tests.said import Said
from tests.test_pairs_stored import edges, no_room

FIND: dict[str, Any] = {"apsp": og.johnson, "multi_source_bfs": og.multi_source_bfs}
GIB = 1 << 30


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, og.Graph]:
    """Rows of both orders with hubs, signed weights, and integers of a dense graph."""
    folder = tmp_path_factory.mktemp("graphs")
    dense = *np.triu_indices(300, 1), np.arange(1, 300 * 299 // 2 + 1)
    return {
        "hubs": build_hubs(folder / "hubs.zarr"),
        "signed": og.build(edges("int64", 100), folder / "signed.zarr", directed=True),
        "dense": og.build(dense, folder / "dense.zarr", directed=True),
    }


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


class Told:
    """The plan that a run took, and the task that it carried out."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.plans: list[Division] = []
        self.tasks: list[ManyTask] = []
        plan_at, prepare = many.plan_at, many.prepare

        def planned(*given: Any) -> Any:
            found = plan_at(*given)
            assert isinstance(found.reserved, Division)
            self.plans.append(found.reserved)
            return found

        def prepared(task: ManyTask) -> None:
            self.tasks.append(task)
            prepare(task)

        patch.setattr(many, "plan_at", planned)
        patch.setattr(many, "prepare", prepared)


def parts(table: dict[str, Any]) -> dict[str, int]:
    return {name: size for name, size in table.items() if name.startswith("bytes: ")}


def require_kept_to(table: dict[str, Any], told: Told, out: Path) -> None:
    """What a table says, the run did."""
    (plan,), (task,) = told.plans, told.tasks
    assert table["may change to"] is None or table["tier"] == "memory"
    (spec, *_) = [one for one in Stored.open(out).arrays() if one.width is not None]
    assert table["bytes: in all"] == plan.needed_bytes
    assert table["sources of a chunk"] == spec.chunk == task.spec.chunk
    assert table["sources of a task"] == min(plan.chunks * spec.chunk, spec.length)
    assert table["sources"] == spec.length
    if table["method"] == "batches":
        assert table["sources of a batch"] == plan.batch_size == task.batch_size
    written = [one for one in Stored.open(out).arrays() if one.width is not None]
    assert table["bytes of the answer"] == sum(one.length * one.item_bytes for one in written)
    whole = parts(table)
    assert whole.pop("bytes: in all") == sum(whole.values())
    assert min(whole.values()) >= 0


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("hubs", "apsp", {}),
    ("hubs", "apsp", {"parents": True}),
    ("hubs", "multi_source_bfs", {}),
    ("signed", "apsp", {}),
    ("signed", "apsp", {"targets": [1, 4, 100]}),
    ("dense", "apsp", {}),
]


@pytest.mark.parametrize("tier", ["memory", "disk"])
@pytest.mark.parametrize(("kind", "kernel", "options"), CASES, ids=str)
def test_a_run_keeps_to_its_plan(
    stores: dict[str, og.Graph],
    kind: str,
    kernel: str,
    options: dict[str, Any],
    tier: str,
    tmp_path: Path,
) -> None:
    graph = stores[kind]
    sources = graph.original_ids()[:200]
    given = {"sources": sources, **options}
    # Small graphs take less in memory than the least that searches out of the store have.
    with no_room() if tier == "disk" else nullcontext():
        least = og.plan(graph, kernel, memory_limit=GIB, **given)["least bytes"]
        for limit in (GIB, least):
            table = og.plan(graph, kernel, memory_limit=limit, **given)
            assert table["tier"] == tier
            assert table["budget"] == limit >= table["bytes: in all"] >= least
            assert table["least bytes"] == least
            out, said = tmp_path / f"{limit}.zarr", Said()
            with pytest.MonkeyPatch.context() as patch:
                told = Told(patch)
                find = {"out": out, "device": "cpu", "memory_limit": limit, "progress": said}
                FIND[kernel](graph, sources, **find, **options)
                engine_cache.release()
            require_kept_to(table, told, out)
            assert (tier == "disk") == (told.plans[0].strategy == "cpu/disk")
            share, left = table["share of arcs in memory"], table["bytes that stay in the store"]
            if tier == "memory":
                assert (share, left) == (1, 0)
            else:
                held = f"{100 * share:.1f} % of those that it looks at"
                assert held in said.notes[0]
                assert f"({table['arcs of each row in memory']} of each row)" in said.notes[0]
                assert (left > 0) == (share < 1)
        assert tier == "memory" or share < 1
        with pytest.raises(MemoryBudgetError, match=f"need {least:,} bytes in one worker"):
            og.plan(graph, kernel, memory_limit=least - 1, **given)


def test_the_method_is_that_of_the_run(
    stores: dict[str, og.Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = np.arange(2_000)
    thin = og.build((at, at + 1, np.ones(2_000, np.float32)), tmp_path / "thin.zarr", directed=True)
    monkeypatch.setattr(many_choice, "CACHED_BYTES", 0)
    for graph, count, method, line in (
        (thin, 60, "one by one", "one by one, by every thread"),
        (stores["dense"], 300, "all pairs at once", "at once, by Floyd-Warshall"),
    ):
        said, sources = Said(), graph.original_ids()[:count]
        assert og.plan(graph, "apsp", sources=sources)["method"] == method
        out = tmp_path / f"{method}.zarr"
        og.johnson(graph, sources, out=out, device="cpu", progress=said)
        engine_cache.release()
        assert said.notes[-1].endswith(line)
    # Of fewer than half of all vertices it never pays.
    table = og.plan(stores["dense"], "apsp", sources=np.arange(149))
    assert (table["method"], table["may change to"]) == ("batches", ["one by one"])


@pytest.mark.parametrize(("count", "method"), [(8, "one by one"), (600, "batches")])
def test_few_sources_of_levels_have_no_batches(
    stores: dict[str, og.Graph], count: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, batches = stores["hubs"], list[int]()
    # What is compiled is tried, which is no batch of the run.
    og.multi_source_bfs(graph, graph.original_ids()[:1], device="cpu")
    search_batch = many_bfs_search.search_batch

    def counted(*given: Any) -> Any:
        batches.append(1)
        return search_batch(*given)

    monkeypatch.setattr(many_bfs_search, "search_batch", counted)
    sources = graph.original_ids()[:count]
    assert og.plan(graph, "multi_source_bfs", sources=sources)["method"] == method
    og.multi_source_bfs(graph, sources, device="cpu")
    assert bool(batches) == (method == "batches")


@pytest.mark.parametrize("kernel", FIND)
def test_plans_for_a_cuda_device(
    stores: dict[str, og.Graph], kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a device that is made up has it: in batches, one by one, with rows in pinned memory."""
    graph, single = stores["hubs"], "sssp" if kernel == "apsp" else "bfs"
    sources = graph.original_ids()[:40]
    batches, whole = (cuda_memory.cuda_bytes(graph, name) for name in (kernel, single))
    if kernel != "apsp":
        batches += cuda_memory.cuda_levels_bytes(graph, graph.vertices)
    least = cuda_pinned.least_device_bytes(graph, single)
    given = {"device": CUDA, "memory_limit": GIB}
    made_up: MadeUp = put_in_place(monkeypatch)
    monkeypatch.setattr(many_batches, "pool_within", lambda limit_bytes: limit_bytes)
    for module in (many_batches, engine):
        monkeypatch.setattr(module, "allocating", lambda _: nullcontext())
    expected = [
        (batches, "device memory", "batches"),
        (whole, "device memory", "one by one"),
        (least, "pinned", "one by one"),
    ]
    for number, (budget, tier, method) in enumerate(expected):
        table = og.plan(graph, kernel, sources=sources, device_memory=budget, **given)
        assert (table["tier"], table["method"]) == (tier, method)
        assert table["device budget"] == budget
        assert table["least device bytes: one by one"] == whole
        assert table["least device bytes: one by one, rows pinned"] == least
        assert table["least device bytes: in batches"] == batches
        used = [size for name, size in table.items() if name.startswith("device bytes: in all")]
        assert used[0] <= budget
        engine_cache.release()
        made_up.used.clear()
        with pytest.MonkeyPatch.context() as patch:
            told = Told(patch)
            out = tmp_path / f"{number}.zarr"
            FIND[kernel](graph, sources, out=out, device_memory=budget, **given)
        kind = "pinned" if tier == "pinned" else "batches" if method == "batches" else "resident"
        assert made_up.used == [kind]
        (plan,), (task,) = told.plans, told.tasks
        assert table["sources of a task"] == min(plan.chunks * task.spec.chunk, len(sources))
        held = table["bytes beside rows and id tables" if tier == "pinned" else "bytes: in all"]
        assert held == plan.needed_bytes - (plan.pinned_bytes if tier == "pinned" else 0)
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        og.plan(graph, kernel, sources=sources, device_memory=least - 1, **given)


def test_the_command_says_the_same(
    stores: dict[str, og.Graph],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph, listed = stores["hubs"], tmp_path / "targets"
    listed.write_text("1\n4\n")
    monkeypatch.setattr(this_process, "cores", lambda: 2)

    def plan(*words: Any) -> Ended:
        return call(monkeypatch, capsys, "plan", graph.path, "--kernel", *words)

    words = "--memory-limit", "1GiB", "--sources"
    for asked, given in (
        (("apsp", *words, "all"), {"kernel": "apsp"}),
        (("apsp", *words, 5, "--parents"), {"kernel": "apsp", "sources": 5, "parents": True}),
        (
            ("apsp", *words, listed, "--targets", listed),
            {"kernel": "apsp", "sources": [1, 4], "targets": [1, 4]},
        ),
        (
            ("multi_source_bfs", *words, "all", "--reduce", "histogram", "--bins", 9),
            {"kernel": "multi_source_bfs", "reduce": "histogram", "bins": 9},
        ),
        (
            ("apsp", *words, "all", "--device", "cuda", "--device-memory", "1GiB"),
            {"kernel": "apsp", "device": CUDA, "device_memory": GIB},
        ),
    ):
        machine = plan(*asked, "--json")
        assert machine.code == 0, machine
        if given.get("sources") == 5:
            given["sources"] = graph.original_ids()[:5]
        facts = json.loads(machine.out)
        assert facts == og.plan(graph, memory_limit=GIB, **given)
        table = plan(*asked)
        assert re.search(rf"bytes of the answer +{facts['bytes of the answer']:,}\n", table.out)
    for refused, line in (
        (("bfs", "--sources", "all"), "for kernels apsp and multi_source_bfs"),
        (("sssp", "--targets", listed), "for kernels apsp and multi_source_bfs"),
        (("apsp", "--sources", 10**6), "vertices with edges"),
        (("apsp", "--sources", "nowhere"), "nowhere"),
        (("apsp", "--bins", 4), "--bins is for --reduce histogram"),
        (("multi_source_bfs", "--parents"), "BFS from many sources gives no parents"),
        (("apsp", "--memory-limit", "1kB"), "bytes in one worker"),
        (("apsp", "--host-memory", 0), "are for CUDA devices"),
    ):
        ended = plan(*refused)
        assert (ended.code, line in ended.err, ended.out) == (2, True, ""), ended
        assert ended.err.count("\n") == 1
    with pytest.raises(
        UsageError, match="choose bfs, sssp, pagerank, weighted_pagerank, apsp, multi_source_bfs"
    ):
        og.plan(graph, "johnson")
