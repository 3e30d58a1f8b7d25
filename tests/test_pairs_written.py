"""Many sources whose answers are written: the same bytes, also of runs that end early."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import DiskFullError, NegativeCycleError, UnexpectedError, UsageError
from ooc_graph.layout import commit, names
from ooc_graph.layout.stored import Stored
from ooc_graph.search import many
from ooc_graph.sinks import in_store
from tests import small_pairs
from tests.command_line import LIMIT_S, running
from tests.small_pairs import arrays, edges, stopped_after

store, small_chunks = small_pairs.store, small_pairs.small_chunks


def test_store_holds_the_same_and_zarr_reads_it(
    store: Path, tmp_path: Path, small_chunks: int
) -> None:
    held = og.johnson(store)
    written = og.johnson(store, out=tmp_path / "d.zarr")
    spec = Stored.open(tmp_path / "d.zarr").spec(names.DISTANCE)
    assert spec.chunk == small_chunks
    assert spec.chunks == -(-len(held.source) // small_chunks)
    for name in held.names:
        assert written.read(name).tobytes() == held.read(name).tobytes()
    assert np.array_equal(written.to_zarr()["distance"][:], held.distance)
    assert np.array_equal(written.to_dask_array("distance").compute(), held.distance)
    Stored.open(tmp_path / "d.zarr").verify()
    assert isinstance(og.Result.open(tmp_path / "d.zarr"), og.PairsResult)
    with pytest.raises(UsageError, match="are not exported"):
        og.export(written, tmp_path / "d.csv")
    with pytest.raises(UsageError, match="cannot be validated"):
        og.validate(written, edges(), directed=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr"]


@pytest.mark.parametrize("reduce", [None, "closeness", "histogram"])
def test_a_stopped_run_goes_on(
    store: Path, tmp_path: Path, small_chunks: int, reduce: str | None
) -> None:
    whole = og.johnson(store, out=tmp_path / "whole.zarr", reduce=reduce)
    out = tmp_path / "d.zarr"
    with stopped_after(7) as first, pytest.raises(UnexpectedError, match="stopped"):
        og.johnson(store, out=out, reduce=reduce)
    assert not out.exists()
    (left,) = tmp_path.glob("d.zarr.partial-*")
    kept = {int(path.stem) for path in (left / "spill/done").glob("*.json")}
    assert kept == set(first)
    with stopped_after(1000) as again:
        found = og.johnson(store, out=out, reduce=reduce)
    assert sorted([*first, *again]) == list(range(-(-len(whole.source) // small_chunks)))
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
    assert found.read(found.names[2]).tobytes() == whole.read(whole.names[2]).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "whole.zarr"]


@pytest.mark.parametrize("failing", ["_write_documents", "_write_sidecars", "rename_durably"])
def test_a_disk_that_fills_up_in_the_commit_costs_no_chunk(
    store: Path, tmp_path: Path, small_chunks: int, failing: str
) -> None:
    whole = og.johnson(store, out=tmp_path / "whole.zarr")
    out = tmp_path / "d.zarr"

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    owner = commit if failing == "rename_durably" else commit.Partial
    with pytest.MonkeyPatch.context() as patch, stopped_after(1000) as first:
        patch.setattr(owner, failing, full)
        with pytest.raises(DiskFullError, match="continues with what there is"):
            og.johnson(store, out=out)
    assert len(first) == -(-len(whole.source) // small_chunks)
    with stopped_after(1000) as again:
        og.johnson(store, out=out)
    assert again == []
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "whole.zarr"]


@pytest.mark.usefixtures("small_chunks")
def test_space_is_wanted_for_all_files_of_numbers(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.johnson(store, out=tmp_path / "whole.zarr")
    files = [path for path in (tmp_path / "whole.zarr").rglob("*") if path.is_file()]
    needed = sum(path.stat().st_size for path in files if path.suffix != ".json")
    free = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(in_store.shutil, "disk_usage", lambda _: free._replace(free=needed - 1))
    with pytest.raises(DiskFullError, match=f"needs {needed:,} bytes more"):
        og.johnson(store, out=tmp_path / "d.zarr")


@pytest.mark.usefixtures("small_chunks")
def test_what_was_done_for_other_sources_is_not_taken_up(store: Path, tmp_path: Path) -> None:
    for cutoff in (None, 5):
        with stopped_after(2) as done, pytest.raises(UnexpectedError, match="stopped"):
            og.johnson(store, out=tmp_path / "d.zarr", cutoff=cutoff)
        assert len(done) == 2
    assert len(list(tmp_path.glob("d.zarr.partial-*"))) == 1


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_other_sizes_are_not_taken_up(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_after(2) as done, pytest.raises(UnexpectedError, match="stopped"):
        og.johnson(store, out=tmp_path / "d.zarr")
    assert len(done) == 2

    def larger(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2 * spec.chunk) for spec in answer_specs(*given))

    monkeypatch.setattr(many, "answer_specs", larger)
    found = og.johnson(store, out=tmp_path / "d.zarr")
    assert found.distance.tobytes() == og.johnson(store).distance.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_command_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    random = np.random.default_rng(5)
    u, v = random.integers(0, 3500, (2, 20_000))
    og.build((u, v, random.integers(1, 100, len(u))), tmp_path / "g.zarr", directed=True)
    words = ["-m", "ooc_graph", "apsp", tmp_path / "g.zarr", "--out", tmp_path / "d.zarr"]
    with running([*map(str, words), "--memory-limit", "600MB"]) as process:
        end = time.monotonic() + LIMIT_S
        while not list(tmp_path.glob("d.zarr.partial-*/spill/done/*.json")):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.002)
        process.send_signal(how)
        process.wait(LIMIT_S)
        assert process.returncode == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    assert not (tmp_path / "d.zarr").exists()
    with running([*map(str, words)]) as process:
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said
    assert "chunks done before" in said
    graph = og.open(tmp_path / "g.zarr")
    found_rows = og.Result.open(tmp_path / "d.zarr").read("distance")
    for place in (0, 1234, 3000):
        source = int(graph.original_ids()[place])
        assert found_rows[place].tobytes() == og.sssp(graph, source).distance.tobytes()


def test_two_workers_write_the_same_bytes(store: Path, tmp_path: Path) -> None:
    og.johnson(store, out=tmp_path / "here.zarr")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        og.johnson(store, out=tmp_path / "there.zarr", client=client)
        held = og.johnson(store, [17, 3], reduce="sum", client=client)
        cycle = og.build(arrays([1, 2], [2, 1], [1, -2]), tmp_path / "c.zarr", directed=True)
        with pytest.raises(NegativeCycleError):
            og.johnson(cycle, client=client)
    assert held.source.tolist() == [17, 3]
    first, second = (Stored.open(tmp_path / f"{name}.zarr") for name in ("here", "there"))
    assert first.identity == second.identity


@pytest.mark.slow
def test_a_lost_worker_is_done_without(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    u, v = random.integers(0, 4000, (2, 30_000))
    graph = og.build((u, v, random.random(len(u))), tmp_path / "g.zarr", directed=True)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
        ThreadPoolExecutor(1) as executor,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        running_ = executor.submit(og.johnson, graph, out=tmp_path / "d.zarr", client=client)
        end = time.monotonic() + LIMIT_S
        while not list(tmp_path.glob("d.zarr.partial-*/spill/done/*.json")):
            assert time.monotonic() < end
            assert not running_.done()
            time.sleep(0.002)
        os.kill(victim, signal.SIGKILL)
        found = running_.result(timeout=LIMIT_S)
    here = og.johnson(graph, out=tmp_path / "here.zarr")
    assert Stored.open(tmp_path / "here.zarr").identity == Stored.open(tmp_path / "d.zarr").identity
    assert np.array_equal(found.source, here.source)
    assert not list(tmp_path.glob("*partial*"))
