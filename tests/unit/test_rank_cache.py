"""Ranks that workers keep between searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import StoreReplacedError
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import FREE, Capacity
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.ranks import vertex_bytes
from ooc_graph.types import Dealing

KERNELS = ("bfs", "sssp")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[og.Graph]:
    folder = tmp_path_factory.mktemp("graphs")
    return [
        og.build(og.Kronecker(scale), folder / f"{scale}.zarr", shards=4, device="cpu")
        for scale in (11, 12)
    ]


@pytest.fixture(scope="module")
def two() -> Iterator[Client]:
    with og.local_cluster(2) as client:
        yield client


def note_loads() -> None:
    """Have this worker note how many shards it loads, beside which engines."""
    engine_cache.release()
    load = Graph.load
    noted: list[tuple[str, int]] = []

    def noting(graph: Graph, order: str, shard: Any = None, *, shards: Any = None) -> Any:
        held = sum(kept.key.reserved.host_bytes for kept in engine_cache._engines)
        noted.append((f"{graph.path.name} {order} {shard} of {shards}", held))
        return load(graph, order, shard, shards=shards)

    noting.noted, noting.plain = noted, load  # type: ignore[attr-defined]
    Graph.load = noting  # type: ignore[method-assign, assignment]


def noted_loads() -> list[tuple[str, int]]:
    """What was noted since; from now on nothing is."""
    noting: Any = Graph.load
    Graph.load = noting.plain  # type: ignore[method-assign]
    noted: list[tuple[str, int]] = noting.noted
    return noted


def held_bytes() -> list[int]:
    return [kept.key.reserved.host_bytes for kept in engine_cache._engines]


def search_in_turn(graphs: list[og.Graph], client: Client, **options: Any) -> list[bytes]:
    found = []
    for graph in graphs:
        for kernel in KERNELS:
            root, how = int(graph.original_of()[0]), {"client": client, "exchange": "scheduler"}
            answer = getattr(og, kernel)(graph, root, device="cpu", **how, **options)
            found.append(answer.parent.tobytes())
    return found


def test_searches_in_turn_load_nothing_again(graphs: list[og.Graph], two: Client) -> None:
    two.run(note_loads)
    first = search_in_turn(graphs, two)
    assert search_in_turn(graphs, two) == search_in_turn(graphs, two) == first
    loads = two.run(noted_loads).values()
    everyone = sorted(name for noted in loads for name, _ in noted)
    # Each worker has two of four shards, joined to one, of both graphs, in both orders of rows.
    assert [len(noted) for noted in loads] == [4, 4]
    assert len(set(everyone)) == 8
    assert all(len(held) == 4 for held in two.run(held_bytes).values())


def test_a_limit_holds_for_all_that_a_worker_keeps(graphs: list[og.Graph], two: Client) -> None:
    both = sum(
        graph.resident_bytes(order) // 2 + vertex_bytes(graph, kernel)
        for graph in graphs[1:]
        for kernel, order in (("bfs", "hub"), ("sssp", "light"))
    )
    for limit, loaded in ((both, 2), (both - 1, 6)):
        two.run(note_loads)
        for _ in range(3):
            search_in_turn(graphs[1:], two, memory_limit=2 * limit)
        noted = two.run(noted_loads).values()
        assert [len(one) for one in noted] == [loaded, loaded]
        assert all(sum(held) <= limit for held in two.run(held_bytes).values())
        # What is kept is released before another is loaded.
        most = max(held for one in noted for _, held in one)
        assert (most > 0) == (loaded == 2)


def test_a_whole_graph_and_ranks_share_a_worker(graphs: list[og.Graph], two: Client) -> None:
    two.run(note_loads)
    root = int(graphs[0].original_of()[0])
    for _ in range(3):
        og.bfs(graphs[0], root, device="cpu", client=two)
        og.bfs(graphs[0], root, device="cpu", client=two, exchange="scheduler")
    for noted in two.run(noted_loads).values():
        # Its two shards, joined, and the whole graph if it was this worker's turn.
        names = [name for name, _ in noted]
        assert 1 <= len(names) == len(set(names)) <= 2


# In one process.


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


def key_of(graph: og.Graph, host_bytes: int = 100) -> Key:
    reserved = Reservation("cpu/memory, ranks", host_bytes)
    return Key(str(graph.path), graph.identity, "bfs", "cpu", reserved)


class Loads:
    """Loads names of ranks; notes which, and is refused memory some times."""

    def __init__(self, refuses: int = 0) -> None:
        self.loaded: list[list[int]] = []
        self.refuses = refuses

    def __call__(self, shards: tuple[int, ...]) -> Any:
        def load(graph: Graph, before: Mapping[int, Any]) -> dict[int, Any]:
            missing = [shard for shard in shards if shard not in before]
            if self.refuses:
                self.refuses -= 1
                raise MemoryError
            self.loaded.append(missing)
            return {**before, **{s: Dealing(graph.rows, graph.shards, s) for s in missing}}

        return load


def use(
    graph: og.Graph, shards: tuple[int, ...], loads: Loads, capacity: Capacity = FREE, **how: Any
) -> None:
    with engine_cache.ranks(key_of(graph), shards, loads(shards), capacity, **how) as engine:
        assert sorted(engine.searches) == list(shards)


def test_ranks_dealt_otherwise_serve_again(graphs: list[og.Graph]) -> None:
    loads = Loads()
    for shards in ((0, 1), (0, 1), (0, 1, 2), (2,)):
        use(graphs[0], shards, loads)
    assert loads.loaded == [[0, 1], [2], []]
    assert len(engine_cache._engines) == 1
    # Those that share a budget do not.
    use(graphs[0], (2, 3), loads, apart=False)
    assert loads.loaded[-1] == [2, 3]


def test_what_is_kept_is_released_before_memory_is_refused(graphs: list[og.Graph]) -> None:
    use(graphs[0], (0, 1), Loads())
    loads = Loads(refuses=1)
    use(graphs[1], (0, 1), loads)
    (kept,) = engine_cache._engines
    assert (kept.key.path, loads.loaded) == (str(graphs[1].path), [[0, 1]])
    engine_cache.release()
    with pytest.raises(MemoryError):
        use(graphs[1], (0, 1), Loads(refuses=1))
    assert not engine_cache._engines


def test_two_searches_at_once_have_ranks_of_their_own(graphs: list[og.Graph]) -> None:
    loads, key = Loads(), key_of(graphs[0])
    with engine_cache.ranks(key, (0,), loads((0,))) as first:
        # What a search has is in nobody's way, and counts.
        assert not engine_cache.keeps_any()
        use(graphs[1], (0,), loads, Capacity(host_bytes=150))
        with engine_cache.ranks(key, (0,), loads((0,))) as second:
            assert second is not first
    assert loads.loaded == [[0]] * 3
    assert [kept.key.path for kept in engine_cache._engines].count(key.path) == 1


def test_ranks_of_a_store_that_was_replaced_are_released(graphs: list[og.Graph]) -> None:
    with (
        pytest.raises(StoreReplacedError),
        engine_cache.ranks(key_of(graphs[0]), (0,), Loads()((0,))),
    ):
        raise StoreReplacedError("replaced")
    assert not engine_cache.keeps_any()


def test_ranks_are_not_taken_for_a_whole_graph(graphs: list[og.Graph], tmp_path: Path) -> None:
    del tmp_path
    use(graphs[0], (0,), Loads())
    key = key_of(graphs[0])
    assert engine_cache.loaded(key) is None
    assert engine_cache.reservations(graphs[0], "bfs", "cpu") == []
    assert engine_cache.loaded(replace_bytes(key, 7)) is None


def replace_bytes(key: Key, host_bytes: int) -> Key:
    return key._replace(reserved=replace(key.reserved, host_bytes=host_bytes))
