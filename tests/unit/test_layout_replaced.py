"""Readers of a store that is replaced or removed are told so, and never of damage."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.result import Result
from ooc_graph.errors import CorruptStoreError, NotAStoreError, RetryableError, StoreReplacedError
from ooc_graph.layout import commit, manifest, stored
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.runtime import same_graph

PATIENCE_S = 60.0
REPLACED = "g.zarr: the store was replaced since it was opened; open it again"
Replace = Callable[[int], str]
ROWS = "shards/00000/out/hub/neighbors"


def edges(content: int) -> tuple[np.ndarray, np.ndarray]:
    """Graphs of as many vertices, rows and arcs: only their bytes differ. Ids have gaps."""
    tail = 1 + np.arange(2000)
    return 5 * np.append(tail, 0), 5 * np.append(tail + 1 + content, 1)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores of each content; the last differs from the others in all that it has."""
    folder = tmp_path_factory.mktemp("built")
    for content in range(3):
        og.build(edges(content), folder / f"{content}.zarr", directed=True)
    og.build(og.Kronecker(6, edge_factor=4), folder / "3.zarr")
    return sorted(folder.glob("*.zarr"))


@pytest.fixture
def replace(built: list[Path], tmp_path: Path) -> Replace:
    """Puts a store of some content in the place of the one that stands there, as a build does."""

    def by(content: int) -> str:
        final, folder = tmp_path / "g.zarr", tmp_path / "g.zarr.partial-0123456789ab"
        shutil.copytree(built[content], folder)
        commit.rename_durably(folder, final)
        shutil.rmtree(folder, ignore_errors=True)
        return Manifest.load(built[content]).sha256

    return by


@pytest.fixture
def store(replace: Replace, tmp_path: Path) -> Path:
    replace(0)
    return tmp_path / "g.zarr"


def read_all(opened: Stored) -> None:
    for spec in list(opened.arrays()):
        opened.read(spec.path)


def read_units(opened: Stored) -> None:
    units = DiskBlocks(opened, [[ROWS]], np.zeros(1, np.int64), batch_blocks=2)
    try:
        list(units.stage(iter([[np.array([0])]])))
    finally:
        units.close()


def load(opened: Stored) -> None:
    og.Graph(opened).load("hub")


READS: dict[str, Callable[[Stored], Any]] = {
    "metadata": lambda opened: opened.spec(ROWS),
    "ids": lambda opened: og.Graph(opened).internal(5),
    "original ids": lambda opened: og.Graph(opened).original_ids(),
    "array": lambda opened: opened.read(ROWS),
    "blocks": lambda opened: list(opened.blocks(ROWS)),
    "sidecar": lambda opened: opened.sidecar(ROWS),
    "all arrays": read_all,
    "units": read_units,
    "rows": load,
    "verify": Stored.verify,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_replaced_store(read: Callable[[Stored], Any], store: Path, replace: Replace) -> None:
    opened = Stored.open(store, "graph")
    replace(3)
    with pytest.raises(StoreReplacedError, match=REPLACED) as caught:
        read(opened)
    assert isinstance(caught.value, RetryableError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_removed_store(read: Callable[[Stored], Any], store: Path) -> None:
    opened = Stored.open(store, "graph")
    shutil.rmtree(store)
    with pytest.raises(NotAStoreError, match=r"g\.zarr: the store is gone; it was removed"):
        read(opened)


@pytest.mark.parametrize("name", ["read_chunk", "small_file"])
def test_a_chunk_or_file_of_another_store(
    name: str, store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have the same names and sizes; and the first store may be back by then."""
    opened = Stored.open(store, "graph")
    real = getattr(stored, name)
    for after in (1, 0):

        def read_another(*arguments: Any, after: int = after) -> Any:
            replace(1)
            try:
                return real(*arguments)
            finally:
                replace(after)

        with monkeypatch.context() as patch:
            patch.setattr(stored, name, read_another)
            with pytest.raises(StoreReplacedError, match=REPLACED):
                opened.sidecar(ROWS) if name == "small_file" else opened.read(ROWS)
    assert replace(0) == opened.identity
    opened.read(ROWS)
    opened.verify()


def test_units_of_another_store_of_the_same_size(store: Path, replace: Replace) -> None:
    opened = Stored.open(store, "graph")
    units = DiskBlocks(opened, [[ROWS]], np.zeros(1, np.int64), batch_blocks=2)
    replace(1)
    try:
        with pytest.raises(StoreReplacedError, match=REPLACED):
            list(units.stage(iter([[np.array([0])]])))
    finally:
        units.close()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_damage_is_still_damage(read: Callable[[Stored], Any], store: Path) -> None:
    """Even if the manifest is damaged as well."""
    opened = Stored.open(store, "graph")
    names = [name for name in opened.manifest.files if name != "zarr.json"]
    for name in names:
        damage(store / name)
    with pytest.raises(CorruptStoreError):
        read(opened)
    damage(store / "manifest.json")
    with pytest.raises(CorruptStoreError):
        read(opened)


def test_damage_to_a_store_that_took_the_place_is_damage(store: Path, replace: Replace) -> None:
    opened = Stored.open(store, "graph")
    assert replace(0) == opened.identity
    damage(store / ROWS / "c/0")
    with pytest.raises(StoreReplacedError, match=REPLACED):
        opened.read(ROWS)
    with pytest.raises(CorruptStoreError, match="chunk 0"):
        Stored.open(store).read(ROWS)


def replaced_while_opened(
    replace: Replace, monkeypatch: pytest.MonkeyPatch, contents: list[int]
) -> list[str]:
    """Replace a store as often between its manifest and its files are read; the identities."""
    real, built = Manifest.reading, []

    def reading(of: Manifest, folder: Path) -> Any:
        if contents:
            built.append(replace(contents.pop(0)))
        return real(of, folder)

    monkeypatch.setattr(Manifest, "reading", reading)
    return built


def test_opening_gives_the_new_store(
    store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = replaced_while_opened(replace, monkeypatch, [1, 2, 3])
    opened = Stored.open(store)
    assert opened.identity == built[-1]
    read_all(opened)


def test_opening_does_not_try_for_ever(
    store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced_while_opened(replace, monkeypatch, [1, 2, 3])
    monkeypatch.setattr(stored, "_OPENINGS", 3)
    with pytest.raises(StoreReplacedError, match=REPLACED):
        Stored.open(store)


def test_attributes_are_those_of_the_manifest(
    store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read last; a store that comes in between has others."""
    real = stored.check_quickly

    def late(folder: Path, entry: Any) -> None:
        real(folder, entry)
        if entry.path == "zarr.json" and not taken:
            taken.append(replace(3))

    taken: list[str] = []
    monkeypatch.setattr(stored, "check_quickly", late)
    opened = Stored.open(store)
    assert (opened.identity, opened.attributes["vertices"]) == (taken[0], 64)


def test_another_store_than_the_one_that_was_opened_before(store: Path, replace: Replace) -> None:
    graph = og.open(store)
    asks = (
        lambda: same_graph.open_same(str(store), graph.identity),
        lambda: same_graph.require_same(graph),
    )
    replace(1)
    for ask in asks:
        with pytest.raises(StoreReplacedError, match=REPLACED):
            ask()
    shutil.rmtree(store)
    for ask in asks:
        with pytest.raises(NotAStoreError, match="the store is gone"):
            ask()


def test_an_unchanged_store_is_known_by_the_file_of_its_manifest(
    store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again if it is another file, even of the same bytes, or was written to."""
    graph, real, read = og.open(store), manifest.manifest_at, []
    monkeypatch.setattr(manifest, "manifest_at", lambda path: read.append(path) or real(path))
    same_graph.require_same(graph)
    assert read == []
    replace(0)
    read.clear()
    same_graph.require_same(graph)
    assert read == [store]
    graph = og.open(store)
    (store / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CorruptStoreError, match="damaged manifest"):
        same_graph.require_same(graph)


def test_a_newer_format_took_the_place(store: Path, replace: Replace) -> None:
    opened = Stored.open(store)
    manifest = store / "manifest.json"
    newer = manifest.read_bytes().replace(b'"version": 1', b'"version": 2')
    manifest.unlink()
    manifest.write_bytes(newer)
    (store / ROWS / "c/0").unlink()
    with pytest.raises(StoreReplacedError, match=REPLACED):
        opened.read(ROWS)


def by_two_renames(first: Path, second: Path, between: Callable[[], None]) -> None:
    """As `commit._exchange` does it where the file system cannot exchange."""
    aside = second.with_name(f"{second.name}{manifest.ASIDE}0123456789ab")
    second.rename(aside)
    between()
    first.rename(second)
    shutil.rmtree(aside)


@pytest.mark.parametrize("how", ["open", "read"])
def test_a_moment_without_a_store(
    how: str, store: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Stored.open(store)
    waiting = Event()
    monkeypatch.setattr(manifest, "sleep", lambda _: waiting.set())
    monkeypatch.setattr(manifest, "_LOOKS", 1 << 40)
    with ThreadPoolExecutor(1) as pool:

        def between() -> None:
            ask = (
                pool.submit(Stored.open, store) if how == "open" else pool.submit(read_all, opened)
            )
            answers.append(ask)
            assert waiting.wait(PATIENCE_S)

        answers: list[Any] = []
        monkeypatch.setattr(commit, "_exchange", lambda a, b: by_two_renames(a, b, between))
        identity = replace(1)
        if how == "open":
            assert answers[0].result(PATIENCE_S).identity == identity
        else:
            with pytest.raises(StoreReplacedError, match=REPLACED):
                answers[0].result(PATIENCE_S)


def test_a_store_that_stays_aside_is_not_waited_for_for_ever(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_PAUSE_S", 0.0)
    store.rename(store.with_name(f"{store.name}{manifest.ASIDE}0123456789ab"))
    with pytest.raises(NotAStoreError, match="no such store"):
        Stored.open(store)


RESULT_READS: dict[str, Callable[[Any, Path], Any]] = {
    "column": lambda result, _: result.parent,
    "frame": lambda result, _: result.to_frame(),
    "csv": lambda result, folder: og.export(result, folder / "r.csv"),
    "npz": lambda result, folder: og.export(result, folder / "r.npz"),
    "parquet": lambda result, folder: og.export(result, folder / "r.parquet"),
}


@pytest.mark.parametrize("read", RESULT_READS.values(), ids=RESULT_READS)
def test_a_replaced_result(read: Callable[[Any, Path], Any], store: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    og.bfs(store, 5, out=tmp_path / "x/g.zarr")
    result = Result.open(tmp_path / "x/g.zarr")
    og.bfs(store, 10, out=tmp_path / "x/g.zarr", overwrite=True)
    with pytest.raises(StoreReplacedError, match=REPLACED):
        read(result, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("r.")] == []
    shutil.rmtree(tmp_path / "x/g.zarr")
    with pytest.raises(NotAStoreError, match="the store is gone"):
        read(result, tmp_path)


def test_a_lazy_column_of_a_replaced_result(store: Path, tmp_path: Path) -> None:
    """Each chunk is read from the store that was opened, though a task opens it again."""
    (tmp_path / "x").mkdir()
    og.bfs(store, 5, out=tmp_path / "x/g.zarr")
    column = Result.open(tmp_path / "x/g.zarr").to_dask_array("parent")
    og.bfs(store, 10, out=tmp_path / "x/g.zarr", overwrite=True)
    with ThreadPoolExecutor(1) as pool, pytest.raises(StoreReplacedError, match=REPLACED):
        column.compute(scheduler="threads", pool=pool)
