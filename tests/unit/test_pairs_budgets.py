"""Many sources within budgets of a device that is made up, and of pinned host memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model import engine
from ooc_graph.model.request import Job, Many, Request
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.raised import in_python
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.this_process import planned
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import batches as many_batches
from ooc_graph.strategies.many.memory import locked_bytes
from tests.command_line import call
from tests.made_up_device import (
    BATCHES,
    FIND,
    PINNED,
    RESIDENT,
    MadeUp,
    build_hubs,
    columns,
    put_in_place,
)
from tests.said import Said
from tests.small_pairs import _no_cluster

LINE = "are for CUDA devices: use --device cuda, or --memory-limit for the CPU"


class Limits:
    """What stands for a pool of a device's memory: who allocates within which limit."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.used: list[int] = []
        self.now: int | None = None

    def pool_within(self, limit_bytes: int) -> int:
        self.made.append(limit_bytes)
        return limit_bytes

    @contextmanager
    def allocating(self, pool: int | None) -> Iterator[None]:
        assert self.now is None
        self.now = pool
        try:
            yield
        finally:
            self.now = None

    def seen(self, device: MadeUp) -> None:
        """Note under which limit batches are loaded and search."""
        use, load = device.use, device.load

        def used(kind: str, *sources: int) -> None:
            self.used.append((kind == BATCHES) * (self.now or 0))
            assert kind == BATCHES or self.now is None
            use(kind, *sources)

        def loaded(kind: str) -> None:
            self.used.append((kind == BATCHES) * (self.now or 0))
            load(kind)

        device.use, device.load = used, loaded  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return build_hubs(tmp_path_factory.mktemp("graphs") / "hubs.zarr")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    device = put_in_place(monkeypatch)
    engine_cache.release()
    yield device
    engine_cache.release()


@pytest.fixture
def limits(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> Limits:
    found = Limits()
    found.seen(made_up)
    monkeypatch.setattr(many_batches, "pool_within", found.pool_within)
    for module in (many_batches, engine):
        monkeypatch.setattr(module, "allocating", found.allocating)
    return found


@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
def test_a_budget_of_the_device_takes_the_next_strategy(
    graph: og.Graph, made_up: MadeUp, limits: Limits, kernel: str, tmp_path: Path
) -> None:
    find, sources = FIND[kernel], graph.original_ids()[::9]
    right = columns(find(graph, sources, device="cpu"))
    single = "sssp" if kernel == "apsp" else "bfs"
    many = "apsp" if kernel == "apsp" else "multi_source_bfs"
    batches, whole = (cuda_memory.cuda_bytes(graph, name) for name in (many, single))
    if kernel == "bfs":
        batches += cuda_memory.cuda_levels_bytes(graph, graph.vertices)
    least = cuda_pinned.least_device_bytes(graph, single)
    for budget, kind in (
        (batches, BATCHES),
        (batches - 1, RESIDENT),
        (whole - 1, PINNED),
        (least, PINNED),
    ):
        for out in (None, tmp_path / f"{budget}.zarr"):
            engine_cache.release()
            made_up.used.clear()
            said, given = Said(), {"device": CUDA, "device_memory": budget, "out": out}
            assert columns(find(graph, sources, progress=said, **given)) == right
            assert made_up.used == [kind]
            if kind != BATCHES:
                assert "searched one by one on the CUDA device" in said.notes[-1]
                assert ("in pinned host memory" in said.notes[-1]) == (kind == PINNED)
                why = f"need {batches:,} bytes of device memory"
                assert why in said.notes[0]
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        find(graph, sources, device=CUDA, device_memory=least - 1)
    assert limits.made == [batches] * 2


@pytest.mark.parametrize("options", [{}, {"parents": True}, {"reduce": "closeness"}], ids=str)
def test_batches_are_loaded_and_search_within_the_budget(
    graph: og.Graph, limits: Limits, options: dict[str, Any]
) -> None:
    given = {"device": CUDA, "device_memory": "512MiB", **options}
    found = og.johnson(graph, graph.original_ids()[::9], **given)
    assert found.names
    assert limits.made == [1 << 29]
    assert len(limits.used) > 1
    assert set(limits.used) == {1 << 29}
    # What is held serves the next call; another limit has another pool, and none has none.
    og.johnson(graph, graph.original_ids()[::8], **given)
    assert limits.made == [1 << 29]
    og.johnson(graph, graph.original_ids()[::8], **{**given, "device_memory": "513MiB"})
    assert limits.made == [1 << 29, 513 << 20]
    limits.used.clear()
    og.johnson(graph, graph.original_ids()[::8], device=CUDA, **options)
    assert limits.made == [1 << 29, 513 << 20]
    assert set(limits.used) == {0}


def job_of(graph: og.Graph, specs: tuple[ArraySpec, ...], asked: Asked) -> Job:
    request = Request(asked.kernel, many=Many(specs, asked, in_memory=True))
    return Job(graph, request, planned(1))


@pytest.mark.parametrize("options", [{}, {"parents": True}], ids=str)
def test_batches_pin_what_the_host_budget_has_room_for(
    graph: og.Graph, made_up: MadeUp, options: dict[str, Any]
) -> None:
    sources = graph.original_ids()[::9]
    right = columns(og.johnson(graph, sources, device="cpu", **options))
    asked = Asked(**options)
    specs = answer_specs(asked, len(sources), graph.vertices, np.dtype(np.float32))
    locked, said = locked_bytes(job_of(graph, specs, asked)), Said()
    width = graph.rows if options else graph.vertices
    # In whole pages.
    assert len(sources) * width * 4 <= locked < len(sources) * width * 4 + 4096
    for limit, kind in ((locked, BATCHES), (locked - 1, RESIDENT), (0, RESIDENT)):
        engine_cache.release()
        made_up.used.clear()
        given = {"device": CUDA, "host_memory": limit, "progress": said}
        assert columns(og.johnson(graph, sources, **given, **options)) == right
        assert made_up.used == [kind]
    assert f"to {locked:,} bytes of pinned host memory, and 0 may be used" in said.notes[-2]


def test_what_batches_pin_is_what_parts_of_their_answers_take(graph: og.Graph) -> None:
    wide = answer_specs(Asked(), 10_000, 1 << 20, np.dtype(np.float32))
    # Sixteen pieces of 8 MiB.
    assert locked_bytes(job_of(graph, wide, Asked())) == 128 << 20
    narrow = answer_specs(Asked(), 5_000, 1 << 10, np.dtype(np.float64))
    # Five of them hold all.
    assert locked_bytes(job_of(graph, narrow, Asked())) == 40 << 20
    for dtype, reduce, pinned in (
        ("float32", "closeness", 0),
        ("float64", "eccentricity", 0),
        ("int64", "sum", 0),
        # Distances of 64 sources whose sums are beyond float64 go to the CPU.
        ("float64", "sum", 64 * 8 << 10),
    ):
        asked = Asked(reduce=reduce)
        specs = answer_specs(asked, 10_000, 1 << 10, np.dtype(dtype))
        assert locked_bytes(job_of(graph, specs, asked)) == pinned


def test_without_pinned_memory_there_are_batches_that_reduce(
    graph: og.Graph, made_up: MadeUp
) -> None:
    given = {"device": CUDA, "host_memory": 0, "reduce": "eccentricity"}
    og.johnson(graph, graph.original_ids()[::9], **given)
    assert made_up.used == [BATCHES]


@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
@pytest.mark.parametrize("wanted", [AUTO, CUDA])
def test_nothing_is_pinned(graph: og.Graph, made_up: MadeUp, wanted: str, kernel: str) -> None:
    find, sources, said = FIND[kernel], graph.original_ids()[::9], Said()
    whole = cuda_memory.cuda_bytes(graph, "sssp" if kernel == "apsp" else "bfs")
    given = {"device": wanted, "device_memory": whole - 1, "host_memory": 0, "progress": said}
    if wanted == CUDA:
        words = "of pinned host memory, and 0 may be used; raise host_memory="
        with pytest.raises(MemoryBudgetError, match=words):
            find(graph, sources, **given)
    else:
        right = columns(find(graph, sources, device="cpu"))
        assert columns(find(graph, sources, **given)) == right
        many = "apsp" if kernel == "apsp" else "multi_source_bfs"
        found = [note for note in said.notes if "one by one" not in note]
        lines = [note.startswith(f"{many} on the CPU: many sources on") for note in found]
        assert lines == [True]
    assert made_up.used == []


@pytest.mark.parametrize("command", ["apsp", "bfs"])
def test_the_commands_take_budgets(
    graph: og.Graph,
    made_up: MadeUp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    for name in ("local_cluster", "local_cuda_cluster"):
        monkeypatch.setattr(f"ooc_graph.runtime.cluster.{name}", _no_cluster)
    single = "sssp" if command == "apsp" else "bfs"
    whole, least = (
        cuda_memory.cuda_bytes(graph, single),
        cuda_pinned.least_device_bytes(graph, single),
    )
    words = graph.path, "--sources", 5, "--out", tmp_path / "d.zarr", "--quiet", "--device-memory"
    for wanted, memory, host, line in (
        ("cpu", "1GiB", (), LINE),
        ("cuda", least - 1, (), f"at least {least:,} bytes of device memory"),
        ("cuda", whole - 1, ("--host-memory", 0), "and 0 may be used; raise --host-memory"),
        ("cuda", "much", (), "much"),
    ):
        ended = call(monkeypatch, capsys, command, *words, memory, "--device", wanted, *host)
        assert (ended.code, line in ended.err) == (2, True), ended
        assert ended.err.count("\n") == 1
        assert not list(tmp_path.iterdir())
    host = "--host-memory", "1GiB"
    ended = call(monkeypatch, capsys, command, *words, whole - 1, "--device", CUDA, *host)
    assert ended.code == 0, ended
    assert made_up.used == [PINNED]
    found = og.Result.open(tmp_path / "d.zarr")
    right = columns(FIND[command](graph, found.read("source"), device="cpu"))
    assert {name: columns(found)[name] for name in right} == right


@pytest.mark.parametrize("find", [og.johnson, og.shortest_paths, og.multi_source_bfs])
def test_budgets_are_not_for_the_cpu(graph: og.Graph, find: Any) -> None:
    for option in ("device_memory", "host_memory"):
        with pytest.raises(UsageError, match=in_python(LINE)):
            find(graph, [1], device="cpu", **{option: "1GiB"})
    with pytest.raises(UsageError):
        find(graph, [1], device=CUDA, device_memory="0")
