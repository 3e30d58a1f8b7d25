"""Input that has no distances, or too large ones: told from what is merely unreachable."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DiskFullError, InputError, NegativeCycleError, UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache
from ooc_graph.sinks import in_store
from ooc_graph.types import INT64_UNREACHED
from tests import small_pairs
from tests.command_line import call
from tests.memory_limits import least_limit
from tests.small_pairs import Call, arrays
from tests.test_pairs_stored import no_room

called = small_pairs.called
ROOM = pytest.mark.parametrize("room", [nullcontext, no_room], ids=["in memory", "in the store"])


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


@ROOM
@pytest.mark.parametrize("length", [2, 25])
def test_a_cycle_that_no_source_reaches_is_shown(tmp_path: Path, room: Any, length: int) -> None:
    ring = np.arange(10, 10 + length)
    u = np.append(ring, [1, 2])
    v = np.append(np.roll(ring, -1), [2, 3])
    weight = np.append(np.ones(length, np.int64), [4, 4])
    weight[0] = -length
    graph = og.build((u, v, weight), tmp_path / "g.zarr", directed=True)
    for options in ({}, {"out": tmp_path / "d.zarr"}, {"targets": [3], "reduce": "sum"}):
        with room(), pytest.raises(NegativeCycleError) as caught:
            og.johnson(graph, [1], device="cpu", **options)
        assert set(caught.value.cycle) == set(ring.tolist())
        assert caught.value.weight == -1
    assert not list(tmp_path.glob("d.zarr*"))
    # Hops do not care.
    assert og.multi_source_bfs(graph, [1], targets=[3]).level.tolist() == [[2]]


@ROOM
def test_a_cycle_of_weight_zero_is_fine(tmp_path: Path, room: Any) -> None:
    arcs = arrays([1, 2, 3, 3], [2, 3, 1, 9], [4, -3, -1, 2])
    graph = og.build(arcs, tmp_path / "g.zarr", directed=True)
    with room():
        found = og.johnson(graph, [2], targets=[1, 2, 3, 9], parents=True, device="cpu")
    assert found.distance.tolist() == [[-4, 0, -3, -1]]
    assert found.parent.tolist() == [[3, 2, 2, 3]]


@pytest.mark.parametrize(
    ("room", "dtype", "far"),
    [
        (nullcontext, "int64", INT64_UNREACHED),
        (no_room, "int64", INT64_UNREACHED),
        (nullcontext, "float32", np.inf),
        pytest.param(no_room, "float32", np.inf, marks=pytest.mark.slow),
    ],
)
def test_pairs_without_a_path(tmp_path: Path, room: Any, dtype: str, far: Any) -> None:
    arcs = *arrays([1, 2, 7], [2, 3, 8]), np.array([4, 3, 5], dtype)
    graph = og.build(arcs, tmp_path / "g.zarr", directed=True)
    with room():
        found = og.johnson(graph, [2, 8], targets=[1, 2, 3, 7], parents=True, device="cpu")
    assert found.distance.tolist() == [[far, 0, 3, far], [far] * 4]
    assert found.parent.tolist() == [[-1, 2, 2, -1], [-1] * 4]


@ROOM
def test_sums_that_might_overflow_are_refused(tmp_path: Path, room: Any, called: Call) -> None:
    path = tmp_path / "g.zarr"
    og.build(arrays([1, 2], [2, 3], [1 << 60, 1 << 60]), path, directed=True)
    with room(), pytest.raises(InputError, match=f"as long as {3 << 60}, .* bound of {1 << 61}"):
        og.johnson(path, device="cpu")
    with room():
        words = ["apsp", path, "--out", tmp_path / "d.zarr", "--quiet", "--device", "cpu"]
        ended = called(*words)
    assert ended.code == 2
    assert f"above the bound of {1 << 61}" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not list(tmp_path.glob("d.zarr*"))


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_not_built(tmp_path: Path, weight: float) -> None:
    with pytest.raises(InputError):
        og.build(
            (*arrays([1, 2], [2, 3]), np.float32([0.5, weight])), tmp_path / "g.zarr", directed=True
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("find", [og.johnson, og.multi_source_bfs])
def test_lists_of_sources(find: Any) -> None:
    graph = og.from_edges(*arrays([1, 2], [2, 5], [1, 1]), directed=True)
    for none in ([], np.empty(0, np.int64)):
        with pytest.raises(InputError, match="no sources are given"):
            find(graph, none)
        with pytest.raises(InputError, match="no targets are given"):
            find(graph, [1], targets=none)
    with pytest.raises(InputError, match="vertex 2 is given twice among the sources"):
        find(graph, [2, 1, 2])
    with pytest.raises(InputError, match="vertex 3 is not in "):
        find(graph, [1, 3])
    with pytest.raises(UsageError, match="list of vertex ids"):
        find(graph, ["1"])


@pytest.mark.parametrize("command", ["apsp", "bfs"])
def test_output_that_does_not_fit_the_disk_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, called: Call
) -> None:
    path = tmp_path / "g.zarr"
    og.build(arrays([1, 2], [2, 3], [4, 5]), path, directed=True)
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(in_store.shutil, "disk_usage", lambda _: usage)
    words = [command, path, "--sources", "all", "--out", tmp_path / "d.zarr", "--quiet"]
    words += ["--device", "cpu"]
    ended = called(*words)
    assert ended.code == DiskFullError.exit_code
    (line,) = ended.err.splitlines()
    assert "bytes more, and the disk has 100 left" in line
    assert not list(tmp_path.glob("d.zarr*"))
    # What is reduced takes next to nothing.
    assert called(*words, "--reduce", "sum").code == 0


def test_numbers_that_floats_do_not_hold(tmp_path: Path, called: Call) -> None:
    """A cutoff has the same meaning, and is stored the same way, however it is given."""
    path, odd = tmp_path / "g.zarr", (1 << 53) + 1
    og.build(arrays([1, 2], [2, 3], [odd, 1]), path, directed=True)
    words = ["apsp", path, "--quiet", "--device", "cpu", "--out"]
    for index, (said, cutoff) in enumerate([(str(odd), odd), ("5", 5.0), ("5.0", 5), ("5.5", 5.5)]):
        there, here = (tmp_path / f"{name}{index}.zarr" for name in ("there", "here"))
        assert called(*words, there, "--cutoff", said).code == 0
        og.johnson(path, cutoff=cutoff, out=here, device="cpu")
        assert Stored.open(there).identity == Stored.open(here).identity
        reached = og.Result.open(there).read("distance")[0].tolist()
        assert reached == [0, odd if index == 0 else INT64_UNREACHED, INT64_UNREACHED]


@pytest.mark.parametrize("words", [["--bins", 3], ["--reduce", "sum", "--bin-width", 3]])
def test_bins_are_for_histograms(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[Any],
) -> None:
    path = tmp_path / "g.zarr"
    og.build(arrays([1, 2], [2, 3], [4, 5]), path, directed=True)
    ended = call(monkeypatch, capsys, "apsp", path, "--out", tmp_path / "d.zarr", *words)
    assert ended.code == 2
    assert "--bins and --bin-width are for --reduce histogram" in ended.err


@pytest.mark.parametrize("find", [og.johnson, og.multi_source_bfs])
def test_a_graph_without_rows_needs_no_more_than_it_says(tmp_path: Path, find: Any) -> None:
    loops = np.arange(2000)
    graph = og.build((loops, loops, np.ones_like(loops)), tmp_path / "g.zarr", directed=True)
    search = partial(find, graph, [3], targets=[3, 4], device="cpu")
    found = search(memory_limit=least_limit(search, 20_000))
    assert found.read(found.names[2])[0, 0] == 0
