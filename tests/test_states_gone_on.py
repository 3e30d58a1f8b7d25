"""Searches by a cluster's ranks that lose a worker, or end, and go on from what these wrote."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph import kernel_cache
from ooc_graph.errors import ClusterLostError, DiskFullError, InputError, OocGraphError
from ooc_graph.exchange import scheduler
from ooc_graph.kernels.cpu import peers
from ooc_graph.runtime.workplace import OnCluster
from ooc_graph.search import rank_states
from tests import toy_ranks
from tests.said import Said

SIDE = 64
ROOT = 5


def write_at_every_superstep(dask_worker: Any, flag: Path) -> None:
    """Have the ranks of a worker's process do so; one dies if the file says after which state.

    Or fails, if it says by which error. They do not search together, which would be too quick.
    """
    peers.MOST_FAILURES = 0
    write = rank_states.RankStates.write

    def dying(self: Any, *state: Any) -> None:
        write(self, *state)
        with suppress(FileNotFoundError):
            number, *error = map(int, flag.read_text().split())
            if self._number >= number:
                # Whoever comes first takes it away.
                flag.unlink()
                if error:
                    raise OSError(*error, "refused")
                os.kill(os.getpid(), signal.SIGKILL)

    rank_states.LEAST_S, rank_states.TIMES = 0.0, 0
    rank_states.RankStates.write = dying  # type: ignore[method-assign]


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that a worker dies by."""
    return tmp_path / "dies"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where answers are written."""
    path = tmp_path / "answers"
    path.mkdir()
    return path


@pytest.fixture
def cluster(flag: Path) -> Iterator[Client]:
    with toy_ranks.start(3) as cluster, Client(cluster) as client:
        client.run(write_at_every_superstep, flag=flag)
        yield client


def grid(folder: Path, weight: Any) -> og.Graph:
    """A graph of long paths, beside a folder."""
    vertex = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    source = np.append(vertex[:, :-1], vertex[:-1])
    target = np.append(vertex[:, 1:], vertex[1:])
    weights = np.resize(np.asarray(weight), len(source))
    path = folder.with_name("g.zarr")
    return og.build((source, target, weights), path, directed=False, shards=4)


def supersteps(said: Said) -> int:
    """Those of the last attempt."""
    (found,) = [re.search(r"(\d+) supersteps", note) for note in said.notes if "exchange" in note]
    assert found is not None
    return int(found[1])


def search(kernel: str, graph: og.Graph, out: Path, client: Client, said: Said) -> str:
    """Search by ranks into a store, and give its identity."""
    root = [] if kernel == "components" else [ROOT]
    how: dict[str, Any] = {"exchange": "scheduler", "out": out, "client": client}
    found = getattr(og, kernel)(graph, *root, **how, progress=said)
    return str(found.columns.manifest.sha256)


GOES_ON = "goes on from the state"


@pytest.mark.parametrize(("kernel", "states"), [("bfs", 30), ("sssp", 9), ("components", 2)])
def test_a_search_goes_on_when_a_worker_is_killed(
    kernel: str, states: int, cluster: Client, flag: Path, folder: Path
) -> None:
    graph = grid(folder, np.arange(1, 8) / 8)
    whole, said = Said(), Said()
    wanted = search(kernel, graph, folder / "whole.zarr", cluster, whole)
    flag.write_text(str(states))
    assert search(kernel, graph, folder / "r.zarr", cluster, said) == wanted
    assert not flag.exists(), "nobody was killed"
    assert [GOES_ON in note for note in said.notes].count(True) == 1
    # How many SSSP takes depends on which rank is quicker.
    if kernel == "bfs":
        assert supersteps(said) < supersteps(whole) - states / 2
    assert left(folder) == {"whole.zarr", "r.zarr"}


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_same_search_goes_on_after_the_cluster_was_lost(
    cluster: Client, flag: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, whole, said = grid(folder, 1), Said(), Said()
    wanted = search("sssp", graph, folder / "whole.zarr", cluster, whole)
    lose("sssp", graph, folder / "r.zarr", cluster, flag, monkeypatch)
    assert search("sssp", graph, folder / "r.zarr", cluster, said) == wanted
    assert any(GOES_ON in note for note in said.notes)
    assert supersteps(said) < supersteps(whole)
    assert left(folder) == {"whole.zarr", "r.zarr"}


def test_another_search_begins_at_its_root(
    cluster: Client, flag: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, said = grid(folder, 1), Said()
    lose("sssp", graph, folder / "r.zarr", cluster, flag, monkeypatch)
    search("bfs", graph, folder / "r.zarr", cluster, said)
    assert not any(GOES_ON in note for note in said.notes)
    assert "what a stopped run left is not used: kernel changed" in said.notes
    assert left(folder) == {"r.zarr"}


def test_another_version_begins_at_its_root(
    cluster: Client, flag: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, said = grid(folder, 1), Said()
    lose("sssp", graph, folder / "r.zarr", cluster, flag, monkeypatch)
    whole_hash, asked = kernel_cache.whole_hash, set[str]()

    def other(*patterns: str) -> str:
        asked.update(patterns)
        return f"another than {whole_hash(*patterns)}"

    monkeypatch.setattr(kernel_cache, "whole_hash", other)
    search("sssp", graph, folder / "r.zarr", cluster, said)
    assert asked == {"traverse/*.py", "search/rank_states.py"}
    assert not any(GOES_ON in note for note in said.notes)


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "the same command continues"), (errno.EIO, "refused")]
)
def test_the_same_search_goes_on_after_an_error_of_the_system(
    number: int, says: str, cluster: Client, flag: Path, folder: Path
) -> None:
    graph, said = grid(folder, 1), Said()
    flag.write_text(f"9 {number}")
    with pytest.raises((OSError, OocGraphError), match=says):
        search("bfs", graph, folder / "r.zarr", cluster, Said())
    search("bfs", graph, folder / "r.zarr", cluster, said)
    assert any(GOES_ON in note for note in said.notes)
    assert left(folder) == {"r.zarr"}


def test_the_answer_has_the_space_of_the_states(
    cluster: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gathers it finds none; if the disk is full then, nothing is left."""
    graph, seen, call = grid(folder, 1), list[str](), OnCluster.call

    def full(self: OnCluster, function: Any, *arguments: Any) -> Any:
        if function.__name__ != "gather":
            return call(self, function, *arguments)
        spill = folder.glob("r.zarr.partial-*/spill/*")
        seen.extend(path.name for path in spill)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(OnCluster, "call", full)
    with pytest.raises(DiskFullError, match=r"nothing of .* was kept"):
        search("bfs", graph, folder / "r.zarr", cluster, Said())
    assert any("parent" in name for name in seen)
    assert not any("state-" in name for name in seen)
    assert left(folder) == set()


def lose(
    kernel: str,
    graph: og.Graph,
    out: Path,
    client: Client,
    flag: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that is given up when a worker dies, and leaves its states."""
    flag.write_text("9")
    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "ATTEMPTS", 1)
        with pytest.raises(ClusterLostError):
            search(kernel, graph, out, client, Said())
    assert any(name.startswith("r.zarr.partial-") for name in left(out.parent))


def test_nothing_is_left_of_a_search_that_fails(cluster: Client, folder: Path) -> None:
    graph = grid(folder, (1 << 60) - 1)
    with pytest.raises(InputError, match="exceeds the largest"):
        search("sssp", graph, folder / "r.zarr", cluster, Said())
    assert left(folder) == set()
