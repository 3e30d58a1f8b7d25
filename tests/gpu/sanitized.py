"""Every kernel once or more on small graphs: the programs that compute-sanitizer watches.

    python -m tests.gpu.sanitized [PART ...]

Memory comes straight from the driver, so that a pool does not hide what lies outside an array.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import ooc_graph as og
from ooc_graph.edges import open_source
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError
from ooc_graph.kernels.common import decisions as interface
from ooc_graph.kernels.common.store.rows import TAIL_ROWS
from ooc_graph.kernels.common.tuning import ENOUGH_PUSHED
from ooc_graph.kernels.cuda.bfs import peers as cuda_peers
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.peers import PeerBfs
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many.bfs import CudaManyBfs
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.pinned.bfs import CudaTierBfsSearch
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch
from ooc_graph.kernels.cuda.pinned.sssp import CudaTierSsspSearch, SsspShare
from ooc_graph.kernels.cuda.runtime.peers import identity
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.runtime.rows import rows_on_device
from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder, reached_tuples
from ooc_graph.kernels.cuda.runtime.shares import ON_DEVICE, rank_rows
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.pull import PushPull
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.kernels.cuda.sssp.small import OneBlock
from ooc_graph.kernels.cuda.sssp.sums import STORED_TYPES
from ooc_graph.kernels.cuda.store import sssp as cuda_disk_sssp
from ooc_graph.kernels.cuda.store import sssp_push as cuda_disk_push
from ooc_graph.layout import names
from ooc_graph.memory.cuda.disk_bfs_plan import DiskDevicePlan
from ooc_graph.memory.cuda.disk_sssp_plan import DiskSsspPlan
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards import cuda_shard_ranges
from ooc_graph.shards.cuda_disk_sssp import load_device_sssp
from ooc_graph.shards.device_tiers import load_device_bfs
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.types import Rows, Shard
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator
from tests import local_exchange
from tests.gpu.building import build_there
from tests.gpu.comparison import hub_sides, light_sides
from tests.gpu.disked import disk_search
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.gpu.tiered import PinnedRanks, StoreRanks
from tests.strategies import WEIGHTS, arcs_of, skewed
from tests.unit.test_sssp_owned import made

MEASURES = {
    CudaBfsValidator: ("uint8", "int32"),
    CudaSsspValidator: ("float32", "float64", "int64"),
}
SCALE = 9
# Small thresholds take searches of small graphs through every part of the kernels.
EAGER = {
    "OPEN_ROWS": 8,
    "PUSH_BELOW": 2,
    "NARROW_ARCS": 8,
    "THIN": 1,
    "BLOCK": 512,
    "FLOOD_ARCS": 50,
    "FLOOD_ROWS": 1 << 20,
    "HUB_WORDS": 8,
    "ROUGH_WORDS": 4,
    "ROUGH_BELOW": 0,
}
# Vertices from which ids have 64 bits, so that all ids are of the type named.
WIDTHS = {"uint32": names.WIDE_VERTICES, "uint64": 0}
SMALL_DEVICE, RUN_DEVICE = (4 << 20) + (1 << 19), (4 << 20) + (3 << 19)
SHORT = {"FRONT": 32, "FRONT_FAR": 32, "PIECE_ARCS": 8}
# Types and factors of weights, what searches, whether near-far has fixed places for rows and keeps
# lengths in shared memory, and other constants of it.
SEARCHES = [
    ("float32", 1, PushPull, False, {}),
    ("float32", 0, PushPull, False, {}),
    ("int32", 1000, PushPull, False, {}),
    ("float32", 1, NearFar, True, {}),
    ("float64", 1, NearFar, True, SHORT),
    ("float64", 0, NearFar, False, {}),
    ("int32", 1000, NearFar, True, SHORT),
    ("int64", 1 << 31, NearFar, False, SHORT),
    ("int64", 1 << 34, NearFar, True, {}),
    ("float32", 1, OneBlock, False, {}),
    ("float64", 0, OneBlock, False, {}),
    ("int64", 1 << 31, OneBlock, False, {}),
    ("int64", 1 << 34, OneBlock, False, {}),
]


def graph_of(directed: bool) -> Shard:
    edges = Kronecker(SCALE)
    return arcs_of(*edges.block(0, edges.edges), directed=directed).shards(1)[0]


def names_of(shard: Shard) -> dict[str, Any]:
    """Original ids as searches take them."""
    return {"original_of": np.arange(len(shard.tuples), dtype=np.uint32)[::-1]}


def generated() -> None:
    """Edges with ids of both widths."""
    for dtype in (np.uint32, np.uint64):
        edges = Kronecker(SCALE)
        source, target = (cupy.empty(edges.edges, dtype) for _ in range(2))
        edges.generate_into(0, source, target, cupy.empty(edges.edges, np.float32))
        edges.generate_into(0, source, target)


def searches(directed: bool) -> None:
    """BFS."""
    graph, plain = graph_of(directed), cuda_bfs.constants
    for changed in ({}, EAGER):
        cuda_bfs.constants = lambda *a, changed=changed, **b: {**plain(*a, **b), **changed}
        search = CudaBfsSearch(*hub_sides(graph), **names_of(graph))
        for root in (0, 100, len(graph.tuples) - 1):
            search.run(root)
            search.run_on_device(root)
    cuda_bfs.constants = plain


def peers(directed: bool) -> None:
    """BFS by one rank alone, since kernels that wait for each other are not run at once here."""
    graph, plain = graph_of(directed), cuda_peers.constants
    rows = rank_rows(graph.dealing, *hub_sides(graph), ON_DEVICE)
    pushed = {"PULL_ABOVE": 1, "PUSH_BELOW": 1, "OPEN_ROWS": 0, "WIDE_ARCS": 1 << 30}
    pushed["MANY_ARCS"] = 1 << 30
    marked = pushed | {"WIDE_ARCS": 0}
    listed = {"OPEN_BELOW": 1, "HUB_WORDS": 8, "PULL_ABOVE": 1000}
    sides = [on_host(r) for r in hub_sides(graph)[: 1 + directed]]
    pinned = [rows_on_device(side, weighted=False) for side in sides]
    places = (rows.out, rows.into), (pinned[0], pinned[-1], BfsShare(2, 20, 30))
    courses = {}, pushed, marked, marked | {"MANY_ARCS": 0}, listed
    for changed, place in itertools.product(courses, places):
        cuda_peers.constants = lambda *a, changed=changed, **b: {**plain(*a, **b), **changed}
        cuda_peers._OPEN_BELOW = changed.get("OPEN_BELOW", 32)
        search = PeerBfs(graph.dealing, *place)
        search.join([identity()], [search.memory.offer])
        for root in (0, 100, len(graph.tuples) - 1):
            search.launch(root, search.epoch + 1, rows.arcs)
            assert search.finish() is not None
    cuda_peers.constants = plain


def paths(directed: bool, part: int) -> None:
    """SSSP by all methods, with weights of all types; without weights all are on plateaus."""
    graph, usual = graph_of(directed), cuda_sssp_near.constants
    light, named = list(light_sides(graph)[: 1 + directed]), names_of(graph)
    for dtype, factor, method, placed, changed in SEARCHES[part::PATH_PARTS]:
        rows = [Rows(r.offsets, r.neighbors, (r.weights * factor).astype(dtype)) for r in light]
        cuda_sssp.may_pull = lambda _, method=method: method is PushPull
        cuda_sssp.suits_one_block = lambda *_, method=method: method is OneBlock
        cuda_sssp_near.fixed_rows_pay = lambda *_, placed=placed: placed
        cuda_sssp_near.KEEP_SMALL = placed
        cuda_sssp_near.constants = lambda *a, changed=changed: {**usual(*a), **changed}
        search = CudaSsspSearch(rows[0], rows[-1], graph.tuples, **named)
        search.run(0)
        for root in (100, len(graph.tuples) - 1):
            search.run_on_device(root)
    cuda_sssp_near.constants = usual


def tiers(directed: bool) -> None:
    """Searches of rows in pinned host memory, with little and with much of them on the device."""
    graph, plain = graph_of(directed), cuda_bfs.constants
    hub = [on_host(r) for r in hub_sides(graph)[: 1 + directed]]
    sides = list(light_sides(graph)[: 1 + directed])
    light = [on_host(r) for r in sides]
    wide = {name: value for name, value in EAGER.items() if name not in ("THIN", "BLOCK")}
    named = names_of(graph)
    for held in (BfsShare(0), BfsShare(1, 20, 30), BfsShare(3, 40)):
        for changed in ({}, wide):
            cuda_bfs.constants = lambda *a, changed=changed, **b: {**plain(*a, **b), **changed}
            search = CudaTierBfsSearch(hub[0], hub[-1], held, **named)
            search.run(0)
            search.run_on_device(len(graph.tuples) - 1)
    cuda_bfs.constants = plain
    cuda_sssp.may_pull = lambda _: True
    for share in (SsspShare(5, 63), SsspShare(6, 1)):
        shortest = CudaTierSsspSearch(light[0], light[-1], graph.tuples, share, **named)
        shortest.run(0)
        shortest.run_on_device(len(graph.tuples) - 1)
    for dtype in STORED_TYPES:
        factor = 1 if dtype.kind == "f" else 1000
        rows = [
            on_host(Rows(r.offsets, r.neighbors, (r.weights * factor).astype(dtype))) for r in sides
        ]
        near = CudaTierNearSearch(rows[0], rows[-1], graph.tuples, **named)
        near.run(0)
        near.run_on_device(len(graph.tuples) - 1)


def in_store(directed: bool) -> None:
    """Searches with arcs in the store, with few and many of them at hand in either memory."""
    random = np.random.default_rng(5)
    ends = (400 * random.random((2, 6000)) ** 2).astype(np.int64)
    edges = ends[0], ends[1], random.random(6000).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.zarr"
        graph = og.build(edges, path, directed=directed, rows="both", device="cpu")
        facts = cuda_disk.known_facts(graph, "bfs")
        for near, far, hubs in ((0, 0, 0), (1, 0, 500), (1, 2, 1000), (0, 7, 0)):
            held = near, far, hubs, hubs * (far > 0)
            plan = DiskDevicePlan(facts, 0, 0, *held, batch_blocks=2, pins=far > 0)
            search = load_device_bfs(graph, plan, threads=1, window=128, look=20)
            for root in (0, graph.rows - 1):
                search.run(root)
            search.close()
        facts = cuda_disk.known_facts(graph, "sssp")
        for share, near_arcs in ((HeadRule(1), 1 << 20), (HeadRule(2, 3), 500)):
            more: dict[str, Any] = {"batch_blocks": 2, "pins": near_arcs == 500}
            shares = DiskSsspPlan(facts, 0, 0, share, near_arcs, **more)
            search = load_device_sssp(graph, shares, threads=1, window=128, look=20)
            for root in (0, graph.rows - 1):
                search.run(root)
            search.close()


def on_host(rows: Rows) -> Rows:
    """Rows in pinned memory, as the device sees them."""
    room = PinnedAllocator(1)
    columns = [c for c in (rows.neighbors, rows.weights) if c is not None]
    held = [room(len(column), column.dtype) for column in columns]
    for array, column in zip(held, columns, strict=True):
        array[:] = column
    return room.on_device(Rows(rows.offsets, *held))


def disk(directed: bool) -> None:
    """SSSP with most arcs elsewhere: usual weights, plateaus, and sums that may overflow."""
    # Small graphs have rows that are pushed whole, too, and a last push.
    interface.ENOUGH_PUSHED = cuda_disk_push.ENOUGH_PUSHED = 10
    cuda_disk_sssp.TAIL_ROWS = 1
    found = skewed(700, 4000, "float32", directed=directed, seed=3)
    flat = np.floor(found.weight * 3)
    for weight in (found.weight, flat, found.weight * np.float32(2e38)):
        shard = replace(found, weight=weight.astype(np.float32)).shards(1)[0]
        for hold, device_arcs in ((SsspShare(1, 63), None), (SsspShare(2, 2), 500)):
            sizes = {"block_bytes": 256, "batch_blocks": 4, "window": 128, "look": 20}
            search = disk_search(shard, hold, device_arcs, **sizes)
            with suppress(InputError):  # the sums of the last ones
                search.run(0)
                search.run(found.vertices // 2)
    interface.ENOUGH_PUSHED = cuda_disk_push.ENOUGH_PUSHED = ENOUGH_PUSHED
    cuda_disk_sssp.TAIL_ROWS = TAIL_ROWS


def deep() -> None:
    """A path with more levels than a byte tells, and sums that overflow."""
    at = np.arange(300)
    graph = arcs_of(at, at + 1, np.full(300, 1e38, np.float32), directed=False).shards(1)[0]
    CudaBfsSearch(*hub_sides(graph)).run(299)
    try:
        CudaSsspSearch(*light_sides(graph)).run(299)
    except InputError:
        return
    raise AssertionError("an overflow was not found")


def ranks(dtype: str, ids: str) -> None:
    """All steps of ranks, on one type of weights, some of them zero; two of them have no rows."""
    names.WIDE_VERTICES = WIDTHS[ids]
    small = {"block_bytes": 256, "batch_blocks": 4, "window": 128, "look": 20}
    devices = CudaDevice(), PinnedRanks(2, 2), StoreRanks(1, 4, **small)
    for directed, device in itertools.product((False, True), devices):
        found = skewed(1500, 6000, dtype, directed=directed, seed=3)
        flat = replace(found, weight=np.floor(found.weight * 3 / found.weight.max()).astype(dtype))
        for arcs in (found, flat):
            RankedSssp(device, arcs.shards(4, ids)).run(5)
        RankedBfs(device, found.shards(4, ids)).run(5)
    names.WIDE_VERTICES = WIDTHS["uint32"]


def owned(dtype: str, ids: str, *, in_store: bool) -> None:
    """All steps of SSSP ranks that own their distances, with tables that are soon full."""
    names.WIDE_VERTICES = WIDTHS[ids]
    small = {"block_bytes": 256, "batch_blocks": 8, "window": 128, "look": 20}
    # Each batch of blocks is a dozen launches, of which a tool may follow a hundred in a second.
    device, count = (StoreRanks(1, 4, **small), 2000) if in_store else (CudaDevice(), 6000)
    for directed in (False, True):
        found = skewed(1500, count, dtype, directed=directed, seed=3)
        flat = replace(found, weight=np.floor(found.weight * 3 / found.weight.max()).astype(dtype))
        for arcs in (found, flat):
            coroutines = made(arcs, 2, 5, count // 20, ids, device)
            local_exchange.run(*coroutines, 2)
    names.WIDE_VERTICES = WIDTHS["uint32"]


def stores(limit: int | None, *, in_runs: bool) -> None:
    """Ids from 0 on and with gaps, no weights and all types of them, within a limit.

    Without one in one range; within one in several, by a pass over the edges for each or from
    sorted runs.
    """
    at = np.random.default_rng(1).integers(0, 500, (2, 4000))
    integers = np.arange(4000) % 7 - 3
    columns = [
        (*at, integers / np.float64(2)),
        (*at * 1000, integers),
        (*at * 1000, integers << 40),
        (*at * 1000, integers.astype(np.float32)),
    ]
    sources = [Kronecker(SCALE), Kronecker(SCALE, weighted=False), *map(open_source, columns)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "graph.zarr"
        cuda_shard_ranges.runs_pay = lambda *_: in_runs
        for source in sources:
            build_there(source, out, overwrite=True, shards=2, device_memory_bytes=limit)


def validated() -> None:
    """Both validators on right trees of a path and on wrong ones, in all types."""
    at = np.arange(300)
    tree = np.maximum(at - 1, 0)
    ends = cupy.asarray(np.r_[at[1:], 5, 0, 7]), cupy.asarray(np.r_[tree[1:], 5, 9, 400])
    circle, far, cut = tree.copy(), tree.copy(), tree.copy()
    circle[200], far[100], cut[-9:] = 250, 30, -1
    for kind, measures in MEASURES.items():
        for number, measure in enumerate(measures):
            wide, rows = number % 2, 300 if measure != "uint8" else 250
            check = kind(rows, 21, directed=bool(wide))
            for parent in (tree, circle, far, cut):
                value = np.zeros(300) if parent is circle and kind is not CudaBfsValidator else at
                value = np.where(parent < 0, {"uint8": 255, "int32": -1}.get(measure, 1e18), value)
                taken = parent[:rows].astype(np.int64 if wide else np.uint32)
                check.add(0, cupy.asarray(taken), cupy.asarray(value[:rows].astype(measure)))
            ids = [a.astype(np.int64 if wide else np.uint32) for a in ends]
            light = "float32" if measure == "float64" else measure
            check.block(*ids, cupy.ones(len(ids[0]), np.int8).astype(light))
            alone = kind(rows, 1)
            alone.add(0, cupy.asarray(tree[:rows]), cupy.asarray(at[:rows].astype(measure)))
            alone.block(*ids, cupy.ones(len(ids[0]), np.int8).astype(light))
            found = [*check.finish(), *alone.finish()]
            if [verdict.ok for verdict in found] != [False] * 5:
                raise AssertionError("a wrong answer or a strange edge was not found")
    for measure, ids in (("uint8", "int32"), ("int32", "int64"), ("float64", "int32")):
        order = OriginalOrder(cupy.asarray(np.array([-1, 2, 0, -1] * 3_000 + [1], ids)))
        parent = cupy.zeros(order.rows, np.uint32)
        given = parent, cupy.zeros(order.rows, measure)
        order.columns(*given)
        order.wide_columns(*given, cupy.zeros(order.rows, np.int64))
        reached_tuples(parent, cupy.ones(order.rows, np.uint64))


def many(dtype: str) -> None:
    """Many sources: few without landmarks, and more with them; all shapes of answers."""
    for directed in (False, True):
        graph = graph_of(directed)
        rows = [
            Rows(r.offsets, r.neighbors, (r.weights * 1000).astype(dtype))
            for r in light_sides(graph)[: 1 + directed]
        ]
        search = CudaJohnson(rows[0], rows[-1], threads=2)
        sources = np.arange(len(graph.tuples))
        for count in (5, len(sources)):
            some, targets = sources[:count], np.r_[sources[::3], -1]
            search.run(some)
            search.reduce(some, sources, some)
            search.run_columns(some, targets, np.full(count, -1), 500)


def many_levels(directed: bool) -> None:
    """BFS from many sources, with lanes that nobody has; all ways to pull, and to answer."""
    graph, usual = graph_of(directed), cuda_many_bfs_plan.constants()
    sizes = cuda_many_bfs_plan.SHORT, cuda_many_bfs_plan.MIDDLE
    sources, targets = np.arange(300), np.r_[np.arange(0, 300, 3), -1]
    for changed, lengths in (({}, sizes), ({"PIECE_ARCS": "8u", "PULL_ABOVE": 1}, (2, 16))):
        cuda_many_bfs_plan.constants = lambda changed=changed: {**usual, **changed}
        cuda_many_bfs_plan.SHORT, cuda_many_bfs_plan.MIDDLE = lengths
        cuda_many_bfs_plan.PIECE_ARCS = int(str(changed.get("PIECE_ARCS", "256u"))[:-1])
        search = CudaManyBfs(*hub_sides(graph), threads=2)
        for count in (5, len(sources)):
            search.run(sources[:count])
            search.tally(sources[:count], bins=3, wanted=np.arange(search.vertices) % 2 == 0)
            search.run_columns(sources[:count], targets, sources[:count], 2)
    cuda_many_bfs_plan.constants = lambda: usual
    cuda_many_bfs_plan.SHORT, cuda_many_bfs_plan.MIDDLE = sizes
    cuda_many_bfs_plan.PIECE_ARCS = 256


PATH_PARTS = 3
PARTS: dict[str, Callable[[], None]] = {
    "generated": generated,
    **{f"searches {d}": partial(searches, d) for d in (False, True)},
    **{f"peers {d}": partial(peers, d) for d in (False, True)},
    **{f"paths {d} {n}": partial(paths, d, n) for d in (False, True) for n in range(PATH_PARTS)},
    **{f"ranks {dtype} {ids}": partial(ranks, dtype, ids) for dtype in WEIGHTS for ids in WIDTHS},
    **{
        f"owned {place} {dtype} {ids}": partial(owned, dtype, ids, in_store=place == "in store")
        for place in ("in memory", "in store")
        for dtype in ("float32", "int64")
        for ids in WIDTHS
    },
    **{f"tiers {directed}": partial(tiers, directed) for directed in (False, True)},
    **{f"in store {directed}": partial(in_store, directed) for directed in (False, True)},
    **{f"many {dtype}": partial(many, dtype) for dtype in ("float32", "float64", "int64")},
    **{f"many levels {directed}": partial(many_levels, directed) for directed in (False, True)},
    **{f"disk {directed}": partial(disk, directed) for directed in (False, True)},
    "deep": deep,
    "stores": partial(stores, None, in_runs=False),
    "stores in ranges": partial(stores, SMALL_DEVICE, in_runs=False),
    "stores in runs": partial(stores, RUN_DEVICE, in_runs=True),
    "validated": validated,
}


def main() -> None:
    cupy.cuda.set_allocator(None)
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
        cupy.cuda.Device().synchronize()
        sys.stdout.write(f"{name}: all kernels have run\n")


if __name__ == "__main__":
    main()
