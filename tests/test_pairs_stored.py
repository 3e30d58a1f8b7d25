"""Many sources on graphs that do not fit memory: the same bytes, less in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.errors import CorruptStoreError, NegativeCycleError, UnexpectedError
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.plan import plan_disk
from ooc_graph.model.request import Many, Request
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import workplace_for
from ooc_graph.search.plan import plan
from ooc_graph.strategies.many import dividing, on_disk
from ooc_graph.strategies.many import tiers as many_tiers
from tests import small_pairs
from tests.memory_limits import held_within_least, least_limit
from tests.own_process import in_own_process
from tests.said import Said
from tests.small_pairs import Call, arrays, stopped_after

called = small_pairs.called
LARGE = 1 << 62


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


@contextmanager
def no_room() -> Iterator[None]:
    """Small graphs always fit; as if they did not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dividing, "process_bytes", lambda *_: LARGE)
        yield


def edges(dtype: str, height: int, *, hubs: bool = False) -> tuple[np.ndarray, ...]:
    """Ids with gaps; weights shifted by heights, so that many are negative unless that is 0."""
    random = np.random.default_rng(6)
    shape = (2, 6000)
    u, v = (600 * random.random(shape) ** (3 if hubs else 1)).astype(np.int64)
    by = random.integers(0, height + 1, 600)
    weight = random.integers(1, 50, 6000) + by[u] - by[v] + random.random(6000) * (dtype[0] == "f")
    keep = u != v
    return (u * 3 + 1)[keep], (v * 3 + 1)[keep], weight[keep].astype(dtype)


KINDS = {
    "signed": ("int64", 100, False),
    "hubs": ("float32", 0, True),
    "even": ("float32", 0, False),
    "signed floats": ("float64", 100, False),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[str, Path] = {}

    def store(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("stored") / f"{kind}.zarr"
            dtype, height, hubs = KINDS[kind]
            og.build(edges(dtype, height, hubs=hubs), made[kind], directed=True)
        return made[kind]

    return store


ASKED: list[dict[str, Any]] = [
    {"parents": True},
    {"cutoff": 60, "targets": [4, 1, 100]},
    {"reduce": "closeness"},
    {"reduce": "histogram", "bin_width": 7.0},
]


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("signed", "in batches of 64 sources"),
        ("hubs", "one by one"),
        pytest.param("even", "in batches of 64 sources", marks=pytest.mark.slow),
        pytest.param("signed floats", "in batches of 64 sources", marks=pytest.mark.slow),
    ],
)
def test_answers_are_those_in_memory(stores: Any, kind: str, how: str) -> None:
    graph = og.open(stores(kind))
    # As many as make a full batch and a part of one.
    sources = graph.original_ids()[:100]
    for asked in ASKED:
        said = Said()
        wanted = og.johnson(graph, sources, device="cpu", **asked)
        with no_room():
            found = og.johnson(graph, sources, device="cpu", progress=said, **asked)
        before, after = said.notes
        assert before.startswith("apsp leaves arcs in the store, holds 100.0 % of those")
        assert before.endswith(f"and searches {how}")
        assert after == "apsp read 0 bytes of the store for 0 rows"
        assert found.names == wanted.names
        for name in wanted.names:
            assert found.read(name).tobytes() == wanted.read(name).tobytes(), name


def test_long_thin_graphs_are_searched_one_by_one_where_all_arcs_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arcs missing each of these searches would read them for itself."""
    at = np.arange(900).reshape(30, 30)
    ends = [
        np.append(*map(np.ravel, pair)) for pair in ((at[1:], at[:, 1:]), (at[:-1], at[:, :-1]))
    ]
    weight = np.random.default_rng(3).integers(1, 100, len(ends[0])).astype(np.float32)
    graph, lanes = og.build((*ends, weight), tmp_path / "g.zarr", directed=True), 64 * 4
    asked = Asked(reduce="sum")
    specs = answer_specs(asked, 900, 900, weight.dtype)
    request = Request("apsp", many=Many(specs, asked, in_memory=True))
    for cached, method in ((900 * lanes, "batches"), (900 * lanes - 1, "one by one")):
        monkeypatch.setattr(many_choice, "CACHED_BYTES", cached)
        with no_room():
            resources = workplace_for(None, 1 << 30, "cpu").resources()
            found = plan(graph, request, resources)
        assert (found.strategy.name, found.reserved.method) == ("cpu/disk", method)
    facts = many_tiers.known_facts(graph, "apsp", many_tiers.ONE_BY_ONE)
    # What it takes to hold all arcs but one is not enough.
    takes = partial(many_tiers.takes_one_by_one, graph, "apsp", lanes)
    all_ = bisect_left(range(10**7), True, key=takes)
    assert plan_disk(facts, all_).head_arcs == facts.arcs > plan_disk(facts, all_ - 1).head_arcs


def test_within_the_least_limit_arcs_are_read(stores: Any) -> None:
    graph = og.open(stores("signed"))
    sources, said = graph.original_ids()[:40], Said()
    wanted = og.johnson(graph, sources, device="cpu").distance.tobytes()
    search = partial(og.johnson, graph, sources, device="cpu", progress=said)
    with no_room():
        limit = least_limit(search, 400_000)
        found = search(memory_limit=limit)
        assert least_limit(search, limit - 1) == limit
    assert found.distance.tobytes() == wanted
    before, after = said.notes
    assert "of each row), and searches in batches of 16 sources" in before
    read = int(after.split("apsp read ")[1].split(" bytes")[0].replace(",", ""))
    # Three batches, each some passes over rows of twelve bytes an arc.
    assert 3 * 60_000 < read < 3 * 60 * 12 * 6000


@pytest.mark.parametrize("options", [{}, {"reduce": "histogram"}, {"reduce": "closeness"}])
def test_levels_are_those_in_memory(stores: Any, options: Any) -> None:
    graph = og.open(stores("hubs"))
    said = Said()
    wanted = og.multi_source_bfs(graph, **options)
    with no_room():
        found = og.multi_source_bfs(graph, progress=said, **options)
    # Where there is no device, that is said before.
    assert any(note.endswith("and searches one by one") for note in said.notes)
    for name in wanted.names:
        assert found.read(name).tobytes() == wanted.read(name).tobytes(), name


def test_what_was_begun_in_memory_goes_on_in_the_store(
    stores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores("signed")
    # Chunks of eight sources.
    width = og.open(store).vertices
    monkeypatch.setattr(
        "ooc_graph.layout.metadata.chunk_length",
        lambda elements, itemsize: max(1, min(elements, 8 * width * 8 // itemsize)),
    )
    monkeypatch.setattr(dividing, "BATCH_SIZES", (8,))
    monkeypatch.setattr(dividing, "TASK_BATCHES", 1)
    monkeypatch.setattr(on_disk, "BATCH_SIZES", (16,))
    og.johnson(store, out=tmp_path / "whole.zarr")
    out = tmp_path / "d.zarr"
    with stopped_after(7) as first, pytest.raises(UnexpectedError, match="stopped"):
        og.johnson(store, out=out)
    with no_room(), stopped_after(1000) as again:
        og.johnson(store, out=out)
    assert len(first) == 7
    assert sorted([*first, *again]) == list(range(-(-width // 8)))
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity


def test_negative_cycles_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "g.zarr"
    og.build(arrays([5, 9, 7, 1], [9, 7, 5, 5], [4, -3, -2, 1]), path, directed=True)
    with no_room(), pytest.raises(NegativeCycleError) as caught:
        og.johnson(path, out=tmp_path / "d.zarr", device="cpu")
    assert set(caught.value.cycle) == {5, 7, 9}
    assert caught.value.weight == -1
    both = og.build(arrays([5, 9], [9, 7], [-4, 3]), tmp_path / "u.zarr", directed=False)
    with no_room(), pytest.raises(NegativeCycleError, match="there and back"):
        og.johnson(both, device="cpu")
    assert not list(tmp_path.glob("d.zarr*"))


def test_a_damaged_chunk_is_named_and_nothing_written(tmp_path: Path) -> None:
    path = tmp_path / "g.zarr"
    og.build(edges("int64", 100), path, directed=True)
    chunk = path / "shards/00000/out/light/weights/c/0"
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    with no_room(), pytest.raises(CorruptStoreError, match="out/light/weights is damaged"):
        og.johnson(path, out=tmp_path / "d.zarr", device="cpu")
    assert not (tmp_path / "d.zarr").exists()


def test_the_command_says_what_it_does(stores: Any, tmp_path: Path, called: Call) -> None:
    words = ["bfs", stores("hubs"), "--sources", 5, "--out", tmp_path / "d.zarr"]
    with no_room():
        ended = called(*words)
    assert ended.code == 0, ended
    assert "multi_source_bfs leaves arcs in the store, holds 100.0 % of those" in ended.err
    assert "multi_source_bfs read 0 bytes of the store" in ended.err


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(stores: Any, tmp_path: Path) -> None:
    store = stores("signed")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
        no_room(),
    ):
        said = Said()
        og.johnson(store, out=tmp_path / "there.zarr", client=client, progress=said)
        sums = og.johnson(store, reduce="sum", client=client).read("sum")
    assert said.notes[-1].startswith("apsp read ")
    og.johnson(store, out=tmp_path / "here.zarr")
    here, there = (Stored.open(tmp_path / f"{name}.zarr").identity for name in ("here", "there"))
    assert here == there
    assert np.array_equal(og.johnson(store, reduce="sum").read("sum"), sums)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("signed", {"parents": True}),
        pytest.param("signed", {"reduce": "histogram", "bin_width": 9}, marks=pytest.mark.slow),
        pytest.param("signed", {}, marks=pytest.mark.slow),
        pytest.param("even", {"parents": True}, marks=pytest.mark.slow),
        pytest.param("bfs", {}, marks=pytest.mark.slow),
        ("bfs", {"reduce": "closeness"}),
    ],
)
@pytest.mark.parametrize("written", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_memory_stays_within_the_least_limit_that_is_accepted(
    tmp_path: Path, kind: str, options: Any, written: bool
) -> None:
    limit, peak, is_right = in_own_process(
        held_within_the_least_limit, tmp_path, kind, options, written
    )
    assert limit / 5 < peak <= limit
    assert is_right


def held_within_the_least_limit(
    folder: Path, kind: str, options: dict[str, Any], written: bool
) -> tuple[int, int, bool]:
    """The least limit, what a search within it holds at once, and whether its answer is right."""
    random = np.random.default_rng(8)
    u, v = random.integers(0, 6000, (2, 300_000))
    by = random.integers(0, 1000 * (kind == "signed") + 1, 6000)
    weight = random.integers(1, 50, len(u)) + by[u] - by[v]
    columns = u, v, weight.astype("float32" if kind == "even" else "int64")
    if kind == "bfs":
        columns = columns[:2]
    graph = og.build([column[u != v] for column in columns], folder / "g.zarr", directed=True)
    sources = graph.original_ids()[:50]
    find = og.multi_source_bfs if kind == "bfs" else og.johnson
    search = partial(find, graph, sources, device="cpu", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ooc_graph.runtime.this_process.cores", lambda: 1)
        wanted = search()
        if written:
            search = partial(search, out=folder / "d.zarr", overwrite=True)
        found: list[Any] = []

        def kept(**given: Any) -> None:
            found[:] = [search(**given)]

        with no_room():
            limit, peak = held_within_least(kept, 4_900_000)
    name = wanted.names[2]
    return limit, peak, found[0].read(name).tobytes() == wanted.read(name).tobytes()
