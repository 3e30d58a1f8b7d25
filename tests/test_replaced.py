"""A store that is rebuilt again and again, and its readers: a right answer, or one error."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.result import Result
from ooc_graph.errors import StoreReplacedError
from ooc_graph.layout import commit, names
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu import plan
from ooc_graph.runtime import engine_cache
from ooc_graph.sinks.single import NUMPY, answer_bytes
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cpu.in_memory import resident_bytes

CONTENTS = (0, 1)
VERTICES = 3000
COPIES = 20
SOURCES = [3 * place for place in range(40)]
SMALL = 1 << 12
"""Bytes of a unit; chunks have 16, so that a search makes many requests."""


def edges(content: int) -> tuple[np.ndarray, ...]:
    """The same vertices and as many arcs; ids with gaps."""
    random = np.random.default_rng(content)
    ring = np.arange(VERTICES)
    u = np.append(ring, random.integers(0, VERTICES, 40 * VERTICES))
    v = np.append(np.roll(ring, 1), random.integers(0, VERTICES, 40 * VERTICES))
    return 3 * u, 3 * v, random.integers(1, 9, len(u)).astype(np.float32)


@contextmanager
def small_units() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "SIDECAR_BYTES", SMALL)
        patch.setattr("ooc_graph.layout.chunks.SIDECAR_BYTES", SMALL)
        patch.setattr(names, "CHUNK_BYTES", 16 * SMALL)
        # Nor is a search of so few arcs to be reserved more than they take.
        for constant in ("RESERVE_BYTES", "ANSWER_BLOCK_BYTES"):
            patch.setattr(plan, constant, 0)
        yield


def write(folder: Path, content: int) -> None:
    graph = og.build(edges(content), folder / "g.zarr", directed=True, overwrite=True)
    og.bfs(graph, 0, out=folder / "r.zarr", overwrite=True, device="cpu")


def by_two_renames(partial: Path, final: Path) -> None:
    """As `commit._exchange` does where the file system cannot exchange."""
    aside = final.with_name(f"{final.name}{names.ASIDE}0123456789ab")
    final.rename(aside)
    partial.rename(final)
    aside.rename(partial)


def put_copy(store: Path, final: Path) -> None:
    """What a build does at its end, without the time that it takes before."""
    partial = final.with_name(f"{final.name}.partial-0123456789ab")
    shutil.copytree(store, partial)
    commit.rename_durably(partial, final)
    commit._remove(partial, final)


def write_in_turn(folder: Path, can_exchange: bool, begun: Event, ended: Event) -> None:
    """Rebuild graph and answer in ``now`` until told to stop; in a process of its own."""
    if not can_exchange:
        commit._exchange = by_two_renames  # type: ignore[assignment]
    with small_units():
        while not ended.is_set():
            for content in CONTENTS:
                write(folder / "now", content)
                begun.set()
            for content in COPIES * CONTENTS:
                for name in ("g.zarr", "r.zarr"):
                    put_copy(folder / f"{content}" / name, folder / "now" / name)


@contextmanager
def rebuilt(folder: Path, can_exchange: bool) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    begun, ended = context.Event(), context.Event()
    process = context.Process(target=write_in_turn, args=(folder, can_exchange, begun, ended))
    process.start()
    try:
        assert begun.wait(120)
        yield
        assert process.is_alive()
        ended.set()
        process.join(120)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def tree(result: Any) -> bytes:
    return b"".join(result.read(name).tobytes() for name in result.names)


def readers(folder: Path, within: dict[str, int]) -> dict[str, Callable[[], object]]:
    """What is done with the stores of a folder, and gives comparable answers."""
    store, answer = folder / "g.zarr", folder / "r.zarr"

    def export() -> bytes:
        target = folder / "r.csv"
        og.export(Result.open(answer), target, overwrite=True)
        return target.read_bytes()

    def verify() -> None:
        Stored.open(store).verify()

    def arrays() -> bytes:
        stored = Stored.open(store)
        return b"".join(stored.read(spec.path).tobytes() for spec in stored.arrays())

    return {
        "open": lambda: og.open(store).summary,
        "arrays": arrays,
        "bfs": lambda: tree(og.bfs(store, 0, device="cpu")),
        "bfs on disk": lambda: tree(og.bfs(store, 0, device="cpu", memory_limit=within["bfs"])),
        "sssp on disk": lambda: tree(og.sssp(store, 0, device="cpu", memory_limit=within["sssp"])),
        "johnson": lambda: tree(og.johnson(store, SOURCES, device="cpu")),
        "components": lambda: tree(og.components(store)),
        "answer": lambda: tree(Result.open(answer)),
        "export": export,
        "verify": verify,
    }


@pytest.mark.parametrize("rounds", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("can_exchange", [True, False])
def test_readers_of_a_store_that_is_rebuilt(
    can_exchange: bool, rounds: int, tmp_path: Path
) -> None:
    right: dict[str, list[object]] = {}
    with small_units():
        for content in CONTENTS:
            (tmp_path / f"{content}").mkdir()
            write(tmp_path / f"{content}", content)
            graph = og.open(tmp_path / f"{content}/g.zarr")
            within = {
                kernel: cpu_disk.least_within(graph, kernel) + answer_bytes(graph, kernel, NUMPY)
                for kernel in ("bfs", "sssp")
            }
            for kernel, limit in within.items():
                assert limit < resident_bytes(graph, kernel, copies=False)
            for name, read in readers(tmp_path / f"{content}", within).items():
                right.setdefault(name, []).append(read())
                engine_cache.release()
        (tmp_path / "now").mkdir()
        outcomes: Counter[tuple[str, str]] = Counter()
        with rebuilt(tmp_path, can_exchange):
            for _ in range(rounds):
                for name, read in readers(tmp_path / "now", within).items():
                    outcomes[name, outcome(read, right[name])] += 1
                    engine_cache.release()
    assert {end for _, end in outcomes} <= {"right", "replaced"}, outcomes
    assert {name for name, end in outcomes if end == "right"} >= {"open"}, outcomes


def outcome(read: Callable[[], object], right: list[object]) -> str:
    try:
        found = read()
    except StoreReplacedError:
        return "replaced"
    except Exception as error:  # noqa: BLE001 - all outcomes are shown together
        return repr(error)
    return "right" if found in right else "wrong"
