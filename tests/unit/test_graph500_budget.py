"""A run of Graph500 within one number: what it needs is known before, refused at once, and kept."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.graph500 import on_host, searches
from ooc_graph.graph500 import run as graph500_run
from ooc_graph.graph500.batches import expected_rows, least_by_part, require_budget
from ooc_graph.graph500.run import Graph500Options, search_keys
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cpu.on_disk import least_within
from tests.command_line import call
from tests.graph500_runs import run
from tests.memory_limits import anonymous_peak, traced_peak
from tests.own_process import in_own_process

KERNELS = ("bfs", "sssp")


@pytest.mark.parametrize("scale", [8, 12, 15])
@pytest.mark.parametrize("seeds", [(2, 3), (7, 11)])
def test_rows_are_known_before(scale: int, seeds: tuple[int, int], tmp_path: Path) -> None:
    source = og.Kronecker(scale, seeds=seeds)
    graph = og.build(source, tmp_path / "g.zarr", device="cpu")
    assert graph.rows <= expected_rows(source) <= min(1 << scale, graph.rows * 1.1 + 30)


@pytest.mark.parametrize("compress", [False, True])
def test_the_least_of_searches_is_known_before(compress: bool, tmp_path: Path) -> None:
    source = og.Kronecker(15)
    graph = og.build(source, tmp_path / "g.zarr", rows="both", device="cpu", compress=compress)
    parts = least_by_part(source, Graph500Options(15, compress=compress))
    for kernel in KERNELS:
        least = least_within(graph, kernel)
        assert least <= parts[f"{kernel} search"] <= 1.02 * least


def test_a_limit_that_is_too_small_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    least = max(least_by_part(og.Kronecker(16), Graph500Options(16)).values())
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes .*for build"):
        run(16, tmp_path / "run", least - 1)
    assert not (tmp_path / "run").exists()
    require_budget(og.Kronecker(16), Graph500Options(16), least)


@pytest.mark.parametrize("scale", [8, 14])
def test_what_a_plan_calls_the_least_is_enough(scale: int, tmp_path: Path) -> None:
    least = max(least_by_part(og.Kronecker(scale), Graph500Options(scale)).values())
    run(scale, tmp_path / "run", least)


# 160 keys at scale 8, and 400 at scale 9, have one without an arc; 300 at scale 9 have one twice.
@pytest.mark.parametrize(("scale", "searches"), [(8, 160), (9, 300), (9, 400)])
def test_keys_that_cannot_be_searched_from_are_refused(
    scale: int, searches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = og.Kronecker(scale)
    with pytest.raises(UsageError, match=f"scale {scale} gives only .*{searches} searches"):
        run(scale, tmp_path / "run", searches=searches)
    assert not (tmp_path / "run").exists()
    graph = og.build(source, tmp_path / "g.zarr", device="cpu")
    with pytest.raises(UsageError, match="gives only"):
        search_keys(graph, source, searches)
    monkeypatch.setattr(graph500_run, "_MOST_COUNTED_SCALE", 0)
    with pytest.raises(UsageError, match="gives only"):
        run(scale, tmp_path / "run", searches=searches)


def test_large_scales_are_bound_by_searches_or_validation() -> None:
    options = Graph500Options(26)
    parts = least_by_part(og.Kronecker(26), options)
    assert set(parts) == {"build", *(f"{k} {part}" for k in KERNELS for part in PARTS)}
    assert max(parts, key=lambda name: parts[name]) == "sssp search"
    alone = least_by_part(og.Kronecker(26), Graph500Options(26, validate=False, kernels=("bfs",)))
    assert set(alone) == {"build", "bfs search"}


PARTS = ("search", "validation")


@pytest.mark.parametrize("is_short", [False, True])
def test_answers_wait_in_files_if_memory_is_short(
    is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of them, nor of those of a run before that was killed."""
    for left in (".answers-killed", ".warm-up-killed"):
        (tmp_path / left).mkdir()
    if is_short:
        monkeypatch.setattr(searches, "check_bytes", lambda *_: 1 << 60)
    filed: list[bool] = []
    by_files = on_host._by_files

    def noted(*given: object) -> object:
        filed.append(any(tmp_path.glob(".answers-*")))
        return by_files(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(on_host, "_by_files", noted)
    run(12, tmp_path)
    assert bool(filed) == is_short
    assert not any(filed)
    assert not [*tmp_path.glob(".answers-*"), *tmp_path.glob(".warm-up-*")]
    found = json.loads((tmp_path / "report.json").read_text())["searches"]
    assert [one["kernel"] for one in found] == [*["bfs"] * 2, *["sssp"] * 2]
    assert all(one["reached"] > 1 and one["edges"] > 1 for one in found)


def test_progress_moves_with_searches_and_with_edges(tmp_path: Path) -> None:
    for kernel in KERNELS:
        stage = run(17, tmp_path, kernels=(kernel,)).stages[f"{kernel}: searching, validating"]
        assert stage.total == 2
        # Half of each search, and a pass of many blocks for the other halves.
        assert len(stage.amounts) > 10
        assert max(stage.amounts) == 0.5
        assert sum(stage.amounts) == pytest.approx(2)


@pytest.mark.parametrize(
    "share", [1.0, *(pytest.param(share, marks=pytest.mark.slow) for share in (1.1, 2.0))]
)
@pytest.mark.parametrize("are_pages", [False, True], ids=["allocated", "pages"])
def test_memory_stays_within_the_limit(share: float, are_pages: bool, tmp_path: Path) -> None:
    """What is allocated; and the process's own pages, with what libraries keep of freed ones."""
    peak, limit = in_own_process(peak_and_limit, share, are_pages, tmp_path)
    assert limit // 4 < peak <= limit + (KEPT_BYTES if are_pages else 0)


KEPT_BYTES = 32 << 20


def peak_and_limit(share: float, are_pages: bool, folder: Path) -> tuple[int, int]:
    """Of a scale whose tables are most of what is held."""
    # Pages are those of libraries as well, which keep as much at any scale.
    scale = 18 if are_pages else 17
    limit = int(share * max(least_by_part(og.Kronecker(scale), Graph500Options(scale)).values()))
    # Within as little, so that the same kernels are compiled.
    within = max(least_by_part(og.Kronecker(10), Graph500Options(10)).values())
    run(10, folder / "compiled", within)
    engine_cache.release()
    do = partial(run, scale, folder / "run", limit)
    traced = partial(traced_peak, most=limit, before=engine_cache.release)
    peak = (anonymous_peak if are_pages else traced)(do)
    engine_cache.release()
    return peak, limit


def test_the_command_says_what_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("plan", "--kernel", "graph500", "--scale", "24", "--memory-limit", "768MiB", "--json")
    said = json.loads(call(monkeypatch, capsys, *words).out)
    assert said == og.plan(og.Kronecker(24), "graph500", memory_limit="768MiB")
    assert said["fits"] == "yes"
    assert said["least bytes: in all"] == max(
        size for name, size in said.items() if name.startswith("least bytes: ")
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"graph": og.Kronecker(5)}, "graph500"),
        ({"graph": og.Kronecker(5), "kernel": "graph500", "sources": [1]}, "graph500"),
        ({"graph": "g.zarr", "kernel": "graph500"}, "give a Kronecker graph"),
    ],
)
def test_what_is_no_plan_of_graph500(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        og.plan(**given)  # type: ignore[arg-type]
