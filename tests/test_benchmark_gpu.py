"""The GPU benchmark as far as it needs no GPU: its model of bytes, and its picture."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.build.gather import DeviceBlock
from ooc_graph.kernels.cuda.runtime import compilation as cuda_compile
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.types import Rows
from tests import numpy_device
from tests.command_line import REPOSITORY, script
from tests.nvrtc import compile_cuda, need_nvrtc

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_model")


def record(kernel: str, scale: int, commit: str, **more: Any) -> dict[str, Any]:
    names = ("minimum", "first_quartile", "median", "third_quartile", "maximum", "harmonic_mean")
    rates = {name: (scale + k) * 1e9 for k, name in enumerate(names)}
    levels = [[False, 5, 40, 0, 1e-4], [True, 900, 0, 700, 8e-4], [False, 3, 9, 0, 1e-4]]
    kinds = ("unique_teps", "internal_teps", "original_order_teps")
    energy = {"searches": 64, "seconds": 3.0, "watts": 250.4, "mteps_per_watt": None}
    return {
        "benchmark": "gpu",
        "kernel": kernel,
        "scale": scale,
        "source_commit": commit,
        "device": {"name": "A device"},
        "teps": rates,
        "edges": [10**9] * 3,
        "times_s": [1e-3, 4e-3, 2e-3],
        "refused": None,
        **{kind: {**rates, "harmonic_mean": (k + 1) * 1e10} for k, kind in enumerate(kinds)},
        "kernel1_s": 0.25,
        "arcs_share": 0.0123,
        "modelled_bytes": 3_210_000_000,
        "modelled_lookups": 456_000_000,
        "copy_bytes_per_s": 4.27e12,
        "lookups_per_s": 1.6e11,
        "share_of_copy": 0.25,
        "share_of_lookup": 0.5,
        "energy": {**energy, "reason": "measured over 3.0 s"},
        **(
            {"levels": [levels, [*levels, [True, 1, 0, 1, 3e-3]], levels]}
            if kernel == "bfs"
            else {}
        ),
        **more,
    }


def picture(tmp_path: Path, records: list[dict[str, Any]], *options: object) -> Any:
    found = tmp_path / "gpu.jsonl"
    found.write_text("".join(json.dumps(one) + "\n" for one in records))
    arguments = ("--records", found, "--out", tmp_path / "gpu.svg", *options)
    return script(BENCHMARKS / "gpu_picture.py", *arguments)


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gpu_checks.cu", []),
        ("gpu_lookups.cu", []),
        ("gpu_edge_list.cu", ["-DONCE=1", "-DWIDE=0", "-DSHARED=1", "-DLEVEL=u8"]),
        ("gpu_edge_list.cu", ["-DONCE=1", "-DWIDE=1", "-DSHARED=1", "-DLEVEL=u8"]),
        ("gpu_edge_list.cu", ["-DONCE=0", "-DWIDE=1", "-DSHARED=0", "-DLEVEL=u32"]),
    ],
)
def test_kernels_compile(name: str, options: list[str], arch: int) -> None:
    need_nvrtc()
    shared = cuda_compile.source("grid.cuh") if "edge_list" in name else ""
    source = shared + (BENCHMARKS / name).read_text()
    log, code = compile_cuda(source, name, ["-std=c++17", *options, f"-arch=sm_{arch}"])
    assert log == ""
    assert code[:4] == b"\x7fELF"


@pytest.fixture
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmarks that has NumPy for CuPy, and is nobody else's."""
    numpy_device.stand_in(monkeypatch)
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    cupy = SimpleNamespace(**vars(numpy_device.CUPY), get_default_memory_pool=lambda: pool)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("harness.device", "gpu_edge_list"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_are_those_of_the_cpu(kernel: str, on_numpy: Callable[[str], Any]) -> None:
    device = on_numpy("harness.device")
    edges = Kronecker(9)
    columns = edges.block(0, edges.edges)
    ids = [column.astype(np.uint32) for column in columns[:2]]
    half = edges.edges // 2
    blocks = [
        DeviceBlock(*(column[part] for column in (*ids, columns[2])))
        for part in (slice(0, half), slice(half, None))
    ]
    found = device.build(edges.vertices, lambda: blocks, kernel, 700)
    graph = og.from_edges(*columns, vertices=edges.vertices)
    shard = graph.load(ORDER_OF[kernel])
    rows = shard.out_hub if kernel == "bfs" else shard.out_light
    assert rows is not None
    pairs = [
        (found.original_of, graph.original_of()),
        (found.internal_of, graph.internal_of()),
        (found.tuples, shard.tuples),
        *((getattr(found.rows, name), getattr(rows, name)) for name in ("offsets", "neighbors")),
        (found.rows.weights, rows.weights),
    ]
    for mine, theirs in pairs:
        assert (mine is None) == (theirs is None)
        assert mine is None or mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("way", ["grouped", "widened", "in_random_order"])
def test_lists_have_each_edge(way: str, on_numpy: Callable[[str], Any]) -> None:
    gpu_edge_list = on_numpy("gpu_edge_list")
    kronecker = Kronecker(12)
    graph: Any = og.from_edges(*kronecker.block(0, kronecker.edges), vertices=kronecker.vertices)
    rows = graph.load("hub").out_hub
    arcs = gpu_edge_list.arcs_of(Rows(rows.offsets, rows.neighbors, None))
    given = *(numpy_device.CUPY.asarray(ends) for ends in arcs), graph.rows
    if way == "in_random_order":
        edges = gpu_edge_list.in_random_order(*given)
    else:
        edges = gpu_edge_list.grouped(*given)
        assert len(edges.base) == 5
    if way == "widened":
        edges = gpu_edge_list.widened(edges)
    half = 4 * edges.ends.itemsize
    ends = edges.ends.astype(np.uint64)
    group = np.repeat(np.arange(len(edges.counts)), edges.counts)
    head, tail = np.divmod(group, len(edges.base) - 1)
    tails = edges.base[tail] + (ends >> np.uint64(half))
    heads = edges.base[head] + (ends & np.uint64((1 << half) - 1))
    found = np.sort(tails << np.uint64(32) | heads)
    row = np.repeat(np.arange(graph.rows, dtype=np.uint64), np.diff(rows.offsets.astype(np.int64)))
    assert np.array_equal(found, row << np.uint64(32) | rows.neighbors)


def test_work_of_a_bfs(model: Any) -> None:
    levels = [model.Level(False, 10, 100, 0, 1e-5), model.Level(True, 500, 0, 900, 1e-5)]
    work = model.bfs_work(8000, levels)
    fixed = 4 * 8000 // 8 + 5 * 8000
    push = 2 * 4 * 100 + 16 * 10
    pull = 2 * 8000 // 8 + 4 * 900 + 4 * 500
    assert work == model.Work(fixed + push + pull, 2 * 100 + 900, 1000)


def test_work_of_an_sssp(model: Any) -> None:
    work = model.sssp_work(8000, {"push": 10, "pull": 70, "finish": 0, "parents": 20})
    assert work == model.Work(8 * 100 + 12 * 8000, 100, 32_000)


def test_shares_of_ceilings(model: Any) -> None:
    work = model.Work(6_000, 300, 8)
    assert model.shares(work, 2.0, 30_000.0, 200.0) == {"copy": 0.1, "lookup": 0.75}


def test_picture_of_the_newest_commit(tmp_path: Path) -> None:
    records = [
        record("bfs", 21, "old"),
        record("bfs", 26, "old"),
        record("bfs", 26, "new", teps={**record("bfs", 7, "x")["teps"]}),
        record("bfs", 26, "new"),
        record("sssp", 26, "new"),
        record("sssp", 28, "new", refused="too large", teps=None),
    ]
    ended = picture(tmp_path, records)
    assert ended.code == 0, ended.err
    drawn = (tmp_path / "gpu.svg").read_text()
    for text in ("A device", "BFS", "SSSP", "of 3 searches", "at scale 26", "slowest", "median"):
        assert text in drawn, text
    assert ">31<" in drawn  # the harmonic mean of the newest record, in GTEPS
    assert "500 GTEPS" in drawn
    assert "250 GTEPS" in drawn
    assert "3,000" in drawn  # the level that makes the slowest search slow
    assert ">21<" not in drawn


def test_picture_without_levels_at_the_scale(tmp_path: Path) -> None:
    ended = picture(tmp_path, [record("bfs", 20, "new")])
    assert ended.code == 0, ended.err
    drawn = (tmp_path / "gpu.svg").read_text()
    assert "of 3 searches" in drawn
    assert "at scale" not in drawn


def test_no_picture_of_nothing(tmp_path: Path) -> None:
    ended = picture(tmp_path, [record("bfs", 28, "new", refused="too large")])
    assert ended.code == 1
    assert "no record to draw" in ended.err
    ended = picture(tmp_path, [record("bfs", 20, "new")], "--commit", "other")
    assert "no record of commit other" in ended.err
    assert not (tmp_path / "gpu.svg").exists()


def test_tables_say_what_the_records_say(tmp_path: Path) -> None:
    roads = tmp_path / "roads.jsonl"
    records = [record("bfs", 26, "new"), record("sssp", 24, "new")]
    records[0]["energy"] |= {"mteps_per_watt": 2345.6}
    median = {"CPU, 2 threads": 0.004, "GPU": 0.001}
    road = {
        "kernel": "bfs",
        "graph": "New York",
        "rows": 264346,
        "weights": None,
        "median_s": median,
        "gpu_is_faster_by": {"CPU, 2 threads": 4.0},
    }
    lines = [{**road, "source_commit": commit} for commit in ("old", "new")]
    roads.write_text("".join(json.dumps(one) + "\n" for one in lines))
    ended = picture(tmp_path, records, "--roads", roads)
    assert ended.code == 0, ended.err
    for line in (
        "| BFS | 26 | 31 | 26 | 27 | 28 | 29 | 30 | 10 | 20 | 30 | 0.25 |",
        "| SSSP | 24 | 1.2 % | 3.21 | 4,270 | 25.0 % | 456 | 160 | 50.0 % |",
        "| BFS | 26 | 64 | 3.0 | 250 | 2,346 |",
        "| SSSP | 24 | 64 | 3.0 | 250 | measured over 3.0 s |",
        "| slowest | 2 | pull | 900 | 700 | 800 |",
        "| New York | BFS | 264,346 | - | 1.00 | 4.00 (4.00) |",
    ):
        assert line in ended.out.splitlines(), ended.out
    assert ended.out.count("New York") == 1


def test_picture_of_budgets(tmp_path: Path) -> None:
    def within(scale: int, gib: int, rate: float) -> dict[str, Any]:
        plan = {"share of arcs on the device": gib / 10, "bytes of pinned host memory": 8 * 10**9}
        found = record("bfs", scale, "new", plan=plan, peak_bytes=10**9, budget_bytes=gib << 30)
        rates = dict.fromkeys(found["teps"], rate * 1000000000.0)
        return {**found, "benchmark": "gpu_tiers", "teps": rates}

    records = [
        within(26, 2, 7),
        *(within(26, gib, 100 * gib) for gib in (1, 2, 9)),
        within(28, 8, 5),
    ]
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (tmp_path / "records.jsonl").write_text(lines)
    options = ("--records", tmp_path / "records.jsonl", "--out", tmp_path / "drawn.svg")
    ended = script(BENCHMARKS / "gpu_tiers_picture.py", *options)
    assert ended.code == 0, ended.err
    assert "| BFS | 26 | 8.0 | 9 | 1.00 | 90.0 % | 900 |" in ended.out
    assert len(ended.out.splitlines()) == 2 + 4  # the newest of each budget
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "BFS, scale 26" in drawn
    assert "scale 28" not in drawn
