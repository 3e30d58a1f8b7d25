"""Every damage to a file of a store is seen: named by file and chunk, never read as data."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ooc_graph.answers.result import Result
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.errors import CorruptStoreError, NotAStoreError
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.stored import Stored
from ooc_graph.shards.load import Graph
from tests.unit.test_build_oracle import ListSource, build_here, small_steps

Damage = Callable[[Path, random.Random], None]


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    path.write_bytes(data)


def truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def append(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + bytes([rng.randrange(256)]))


def zero(path: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def duplicate(path: Path, rng: random.Random) -> None:
    """Append the file to itself: a crc32c over data and crc is blind to some such changes."""
    path.write_bytes(path.read_bytes() * 2)


DAMAGES: list[Damage] = [flip, truncate, empty, delete, append, zero, duplicate]


@pytest.fixture(scope="module")
def graph_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directed, weighted, ids with gaps, two shards, several chunks an array."""
    rng = np.random.default_rng(7)
    ids = np.unique(rng.integers(0, 1 << 40, 2500))
    u, v = ids[rng.integers(0, len(ids), 9000)], ids[rng.integers(0, len(ids), 9000)]
    path = tmp_path_factory.mktemp("corrupt") / "g.zarr"
    with small_steps(chunk=1 << 14):
        build_here(ListSource(u, v, rng.random(9000), directed=True), path, shards=2)
    return path


@pytest.fixture(scope="module")
def result_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corrupt") / "r.zarr"
    size = 3000
    tree = Tree(
        "bfs",
        5,
        5,
        np.arange(size, dtype=np.uint32)[::-1].copy(),
        np.arange(size, dtype=np.int32) % 7,
    )
    ids = Ids(np.arange(size, dtype=np.int32), np.arange(size), 0, None)
    with small_steps(chunk=1 << 13), partial_store(path, "result", overwrite=False) as partial:
        columns = TreeColumns(tree, ids)
        specs, entries = columns.write(partial.folder)
        attributes = {"kernel": "bfs", "graph_sha256": "0" * 64, **columns.attributes}
        partial.commit("result", attributes, specs, entries)
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Every array, read with the chunk length that the store was built with."""
    stored = Stored.open(path)
    return {spec.path: stored.read(spec.path).tobytes() for spec in stored.arrays()}


def read_or_refuse(path: Path, whole: dict[str, bytes]) -> str | None:
    """Message of the refusal to read, or None where the very same was read."""
    try:
        assert contents(path) == whole, "other data were read"
    except (CorruptStoreError, NotAStoreError) as error:
        return str(error)
    return None


def verify_refuses(path: Path) -> str:
    with pytest.raises((CorruptStoreError, NotAStoreError)) as caught:
        Stored.open(path).verify()
    return str(caught.value)


def said_where(message: str, store: Path, name: str) -> bool:
    """Whether a message names the file, and the chunk where it is one."""
    array, chunk, index = name.partition("/c/")
    named = str(store / name) in message or (str(store) in message and Path(name).name in message)
    return named and (not chunk or f"chunk {index} of {array}" in message)


@pytest.mark.parametrize("kind", ["graph_store", "result_store"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_to_any_file_is_seen(
    kind: str, damage: Damage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    rng = random.Random(f"{kind}{damage.__name__}")
    with small_steps(chunk=1 << 14 if kind == "graph_store" else 1 << 13):
        store = tmp_path / "s.zarr"
        shutil.copytree(request.getfixturevalue(kind), store)
        whole = contents(store)
        names = sorted(p.relative_to(store).as_posix() for p in store.rglob("*") if p.is_file())
        assert len(names) > 10
        for name in names:
            before = (store / name).read_bytes()
            damage(store / name, rng)
            assert (store / name).exists() is (damage is not delete)
            message = read_or_refuse(store, whole)
            assert message is None or said_where(message, store, name), (name, message)
            # Sidecars are not needed to read whole chunks; all else is refused before.
            assert message is not None or name.startswith("integrity/"), name
            assert said_where(verify_refuses(store), store, name)
            (store / name).write_bytes(before)
        Stored.open(store).verify()


def test_any_byte_of_the_manifest_counts(graph_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(graph_store, store)
    manifest = store / "manifest.json"
    good, rng = manifest.read_bytes(), random.Random(1)
    for place in range(0, len(good), 7):
        for change in (rng.randrange(1, 256), good[place] ^ 0x20, good[place] ^ 0x0A):
            if change:
                manifest.write_bytes(
                    good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]
                )
                with pytest.raises((CorruptStoreError, NotAStoreError), match=r"manifest\.json"):
                    Stored.open(store)


def test_swapped_chunks_are_seen_when_a_store_is_opened(graph_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(graph_store, store)
    with small_steps(chunk=1 << 14):
        assert Stored.open(store).spec("shards/00000/out/hub/neighbors").chunks >= 2
        pairs = [("shards/00000/out/hub/neighbors/c/0", "shards/00000/out/hub/neighbors/c/1")]
        pairs += [("shards/00000/out/light/weights/c/0", "shards/00000/in/light/weights/c/0")]
        for first, second in pairs:
            one, two = (store / first).read_bytes(), (store / second).read_bytes()
            assert len(one) == len(two)
            assert one != two
            (store / first).write_bytes(two)
            (store / second).write_bytes(one)
            with pytest.raises(CorruptStoreError) as caught:
                Graph.open(store)
            assert said_where(str(caught.value), store, first) or said_where(
                str(caught.value), store, second
            )
            (store / first).write_bytes(one)
            (store / second).write_bytes(two)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_after_opening_is_seen(damage: Damage, graph_store: Path, tmp_path: Path) -> None:
    store, rng = tmp_path / "s.zarr", random.Random(damage.__name__)
    shutil.copytree(graph_store, store)
    with small_steps(chunk=1 << 14):
        stored = Stored.open(store)
        for spec in list(stored.arrays()):
            for name in (spec.chunk_path(0), f"{spec.path}/zarr.json"):
                before = (store / name).read_bytes()
                damage(store / name, rng)
                with pytest.raises(CorruptStoreError) as caught:
                    stored.read(spec.path)
                assert said_where(str(caught.value), store, name)
                with pytest.raises(CorruptStoreError) as caught:
                    stored.verify()
                assert said_where(str(caught.value), store, name)
                (store / name).write_bytes(before)


def test_loading_a_graph_names_file_and_chunk(graph_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(graph_store, store)
    name = "shards/00001/in/light/weights/c/0"
    data = bytearray((store / name).read_bytes())
    data[100] ^= 1
    (store / name).write_bytes(data)
    with small_steps(chunk=1 << 14):
        graph = Graph.open(store)
        for shard in (None, 1):
            with pytest.raises(CorruptStoreError, match=r"weights/c/0: chunk 0 of shards/00001"):
                graph.load("light", shard)
        assert graph.load("hub").out_hub is not None
        assert graph.load("light", 0).out_light is not None


def test_one_bit_anywhere_in_a_chunk(graph_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(graph_store, store)
    path = store / "tuples/c/0"
    good, rng = path.read_bytes(), random.Random(5)
    with small_steps(chunk=1 << 14):
        stored = Stored.open(store)
        for _ in range(300):
            data = bytearray(good)
            bit = rng.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            with pytest.raises(CorruptStoreError, match="chunk 0 of tuples"):
                stored.read("tuples")


@pytest.mark.parametrize("stranger", ["x", "tuples/c/9", "shards/00007/zarr.json", ".hidden"])
def test_a_stranger_file_is_found_by_verify(
    stranger: str, graph_store: Path, tmp_path: Path
) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(graph_store, store)
    (store / stranger).parent.mkdir(parents=True, exist_ok=True)
    (store / stranger).write_bytes(b"{}")
    with pytest.raises(CorruptStoreError, match="not a file of this store") as caught:
        Stored.open(store).verify()
    assert str(store / stranger) in str(caught.value)


def test_a_lazy_column_refuses_damage(result_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "r.zarr"
    shutil.copytree(result_store, store)
    with small_steps(chunk=1 << 13):
        column = Result.open(store).to_dask_array("parent")
        flip(store / "parent/c/1", random.Random(2))
        with (
            ThreadPoolExecutor(1) as pool,
            pytest.raises(CorruptStoreError, match="chunk 1 of parent"),
        ):
            column.compute(scheduler="threads", pool=pool)


@pytest.mark.parametrize("there", ["nothing", "file", "empty folder", "plain zarr"])
def test_what_is_no_store(there: str, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    if there == "file":
        path.write_text("1 2\n")
    elif there != "nothing":
        path.mkdir()
    if there == "plain zarr":
        (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(NotAStoreError, match=r"s\.zarr") as caught:
        Stored.open(path)
    assert caught.value.exit_code == 2


def test_a_folder_of_stores_is_none(result_store: Path, tmp_path: Path) -> None:
    shutil.copytree(result_store, tmp_path / "answers" / "7.zarr")
    with pytest.raises(NotAStoreError, match=r"give one, such as .*/answers/7\.zarr$"):
        Result.open(tmp_path / "answers")


def test_a_store_of_the_other_kind(graph_store: Path, result_store: Path) -> None:
    with pytest.raises(NotAStoreError, match="holds a graph"):
        Result.open(graph_store)
    with pytest.raises(NotAStoreError, match="holds a result"):
        Graph.open(result_store)
