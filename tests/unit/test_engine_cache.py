"""Engines that a process keeps between searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import FREE, Capacity
from ooc_graph.runtime import engine_cache


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[og.Graph]:
    folder = tmp_path_factory.mktemp("graphs")
    return [
        og.build(og.Kronecker(scale), folder / f"{scale}.zarr", rows="both", device="cpu")
        for scale in (8, 9)
    ]


@dataclass
class Loads:
    """Loads nothing; notes what was asked for, and what was closed."""

    loaded: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    refuses: int = 0

    def __call__(self, _: object, kernel: str, reserved: Reservation) -> Any:
        if self.refuses:
            self.refuses -= 1
            raise MemoryError
        self.loaded.append(kernel)
        return Closing(kernel, self.closed)


@dataclass
class Closing:
    """An engine that can only be closed."""

    kernel: str
    closed: list[str]

    def close(self) -> None:
        self.closed.append(self.kernel)


def key_of(graph: og.Graph, kernel: str, host_bytes: int = 100) -> Key:
    reserved = Reservation("cpu/memory", host_bytes)
    return Key(str(graph.path), graph.identity, kernel, "cpu", reserved)


def use(
    graph: og.Graph, kernel: str, loads: Loads, capacity: Capacity = FREE, size: int = 100
) -> None:
    with engine_cache.engine(key_of(graph, kernel, size), loads, capacity):
        pass


def test_searches_in_turn_load_nothing_again(
    graphs: list[og.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[tuple[Path, str]] = []
    load = engine_cache._load

    def noted(key: Key, how: Any) -> Any:
        loads.append((Path(key.path), key.kernel))
        return load(key, how)

    monkeypatch.setattr(engine_cache, "_load", noted)
    for _ in range(3):
        for graph in graphs:
            for kernel in ("bfs", "sssp"):
                getattr(og, kernel)(graph, int(graph.original_of()[0]), device="cpu")
    assert loads == [(graph.path, kernel) for graph in graphs for kernel in ("bfs", "sssp")]


def test_the_one_used_longest_ago_is_released_first(graphs: list[og.Graph]) -> None:
    graph, loads, capacity = graphs[0], Loads(), Capacity(host_bytes=300)
    for kernel in ("bfs", "sssp", "components", "bfs", "apsp"):
        use(graph, kernel, loads, capacity)
    assert loads.loaded == ["bfs", "sssp", "components", "apsp"]
    assert loads.closed == ["sssp"]
    # More than all that is there, and less.
    use(graph, "bfs", loads, capacity, size=250)
    assert loads.closed == ["sssp", "components", "bfs", "apsp"]
    (only,) = engine_cache._engines
    assert only.key.reserved.host_bytes == 250


def test_engines_stay_within_the_limit_together(graphs: list[og.Graph]) -> None:
    graph, loads = graphs[0], Loads()
    for limit in (1000, 250, 100):
        for kernel in ("bfs", "sssp", "components"):
            use(graph, kernel, loads, Capacity(host_bytes=limit))
            held = sum(kept.key.reserved.host_bytes for kept in engine_cache._engines)
            assert held <= limit


def test_memory_refused_beside_others_is_asked_for_again_without_them(
    graphs: list[og.Graph],
) -> None:
    graph, loads = graphs[0], Loads()
    use(graph, "bfs", loads)
    loads.refuses = 1
    use(graph, "sssp", loads)
    assert (loads.loaded, loads.closed) == (["bfs", "sssp"], ["bfs"])
    # Alone it is refused.
    engine_cache.release()
    loads.refuses = 1
    with pytest.raises(MemoryError):
        use(graph, "bfs", loads)
    assert not engine_cache._engines


def test_what_is_given_up_tells_what_was_there(graphs: list[og.Graph]) -> None:
    graph, loads = graphs[0], Loads()
    bfs, sssp = (key_of(graph, kernel) for kernel in ("bfs", "sssp"))
    use(graph, "bfs", loads)
    freed = engine_cache.give_up(bfs)
    assert (freed.was_loaded, freed.had_others) == (True, False)
    use(graph, "bfs", loads)
    freed = engine_cache.give_up(sssp)
    assert (freed.was_loaded, freed.had_others) == (False, True)
    assert loads.closed == ["bfs", "bfs"]
    freed = engine_cache.give_up(sssp)
    assert (freed.was_loaded, freed.had_others) == (False, False)


def test_one_engine_serves_instead_of_another_in_the_same_room(graphs: list[og.Graph]) -> None:
    graph, loads, capacity = graphs[0], Loads(), Capacity(host_bytes=1000)
    asked, held = key_of(graph, "bfs", 500), key_of(graph, "bfs", 100)
    use(graph, "bfs", loads, capacity, size=100)
    engine_cache.use_instead(asked, held, capacity)
    assert asked.reserved in engine_cache.reservations(graph, "bfs", "cpu", capacity)
    use(graph, "bfs", loads, capacity, size=500)
    assert loads.loaded == ["bfs"]
    # With other limits it may not be refused.
    use(graph, "bfs", loads, Capacity(host_bytes=2000), size=500)
    assert loads.loaded == ["bfs", "bfs"]
    # Nothing that is gone serves.
    engine_cache.release()
    engine_cache.use_instead(asked, held, capacity)
    assert engine_cache.loaded(asked, capacity) is None


def test_only_so_many_are_kept(graphs: list[og.Graph]) -> None:
    graph, loads = graphs[0], Loads()
    for number in range(40):
        use(graph, f"kernel {number}", loads)
    assert len(engine_cache._engines) == engine_cache._MOST_ENGINES
    assert loads.closed == loads.loaded[: 40 - engine_cache._MOST_ENGINES]


def test_what_is_refused_memory_for_its_answer_is_closed(
    graphs: list[og.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, loads, capacity = graphs[0], Loads(), Capacity(host_bytes=1000)
    use(graph, "bfs", loads, capacity, size=100)
    asked, held = key_of(graph, "bfs", 500), key_of(graph, "bfs", 100)
    engine_cache.use_instead(asked, held, capacity)

    def refuse(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine_cache, "take_back", refuse)
    with pytest.raises(MemoryError):
        engine_cache.release()
    assert loads.closed == ["bfs"]
    assert (engine_cache._engines, engine_cache._instead) == ({}, {})


def test_a_search_is_refused_a_limit_whatever_is_kept(graphs: list[og.Graph]) -> None:
    graph = graphs[1]
    root = int(graph.original_of()[0])
    right = og.bfs(graph, root, device="cpu").parent.tobytes()
    og.sssp(graph, root, device="cpu")
    with pytest.raises(MemoryBudgetError, match="needs at least"):
        og.bfs(graph, root, device="cpu", memory_limit=1000)
    assert og.bfs(graph, root, device="cpu").parent.tobytes() == right
