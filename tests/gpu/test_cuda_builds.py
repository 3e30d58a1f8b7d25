"""Builds on the devices of all workers make the CPU's store, whoever is lost meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from tests.command_line import REPOSITORY
from tests.gpu.memory import used_bytes
from tests.said import Said
from tests.unit.test_build_oracle import random_source
from tests.unit.test_cuda_builds import PAUSE_S, chunks_there, recorded, until

SHARDS = 8
LITTLE = "24MiB"
"""Memory of a device in which rows of this graph's shards are made in several ranges."""


@pytest.fixture(params=["one device", "a device each"])
def client(request: pytest.FixtureRequest) -> Client:
    """Two workers that share a device; or one for each device that there is, with RMM."""
    if request.param == "one device":
        return with_all(request.getfixturevalue("workers"), 2)
    devices = cuda_modules.cuda().cuda.runtime.getDeviceCount()
    return with_all(request.getfixturevalue("cuda_workers"), devices)


def with_all(cluster: Client, count: int) -> Client:
    """Once workers that were killed are started again."""
    cluster.wait_for_workers(count, timeout=PAUSE_S)
    return cluster


def kronecker(**given: Any) -> og.Kronecker:
    return og.Kronecker(16, **{"weighted": True, **given})


def on_the_cpu(source: EdgeSource, path: Path, **options: Any) -> og.Graph:
    given = {"shards": SHARDS, "client": False, "device": "cpu", **options}
    return og.build(source, path, **given)


def on_devices(source: EdgeSource, path: Path, client: Any, **options: Any) -> og.Graph:
    return og.build(
        source, path, **{"shards": SHARDS, "client": client, "device": "cuda", **options}
    )


def text(folder: Path, *, gapped: bool, weight: str) -> Path:
    """A file of edges."""
    found = random_source(7, vertices=9000, edges=60_000, weight=weight, gapped=gapped)
    lines = (f"{u}\t{v}\t{w}\n" for u, v, w in zip(found.u, found.v, found.w, strict=True))
    path = folder / "edges.tsv"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [None, LITTLE])
def test_generated_edges(weighted: bool, limit: str | None, client: Client, tmp_path: Path) -> None:
    source, said = kronecker(weighted=weighted), Said()
    right = on_the_cpu(source, tmp_path / "cpu.zarr")
    alone = on_devices(source, tmp_path / "alone.zarr", False, device_memory=limit)
    options = {"device_memory": limit, "progress": said}
    built = on_devices(source, tmp_path / "all.zarr", client, **options)
    assert built.identity == alone.identity == right.identity
    assert said.notes == []
    assert len(said.stages["sorting and writing rows"].amounts) >= min(2, len(client.nthreads()))


@pytest.mark.parametrize("gapped", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weight", ["int64", "float64"])
def test_text(gapped: bool, directed: bool, weight: str, client: Client, tmp_path: Path) -> None:
    """Within so little that rows come from sorted runs, each worker's own."""
    path = text(tmp_path, gapped=gapped, weight=weight)
    source = og.edges.open_source(path, header=False, weight=2, directed=directed)
    right = on_the_cpu(source, tmp_path / "cpu.zarr")
    for limit in (None, "5MiB"):
        built = on_devices(
            source, tmp_path / "all.zarr", client, device_memory=limit, overwrite=True
        )
        assert built.identity == right.identity


def test_workers_hold_nothing_afterwards(client: Client, tmp_path: Path) -> None:
    on_devices(kronecker(), tmp_path / "g.zarr", client)
    assert set(client.run(used_bytes).values()) == {0}


def test_more_workers_than_shards(client: Client, tmp_path: Path) -> None:
    right = on_the_cpu(kronecker(), tmp_path / "cpu.zarr", shards=1)
    assert on_devices(kronecker(), tmp_path / "g.zarr", client, shards=1).identity == right.identity


MOMENTS = {
    "counting": ("kernels.cuda.build.store_rows.TupleCount", "add"),
    "numbering": ("shards.cuda_stages", "number_vertices"),
    "writing tables": ("shards.cuda_stages", "write_tables"),
    "making rows": ("kernels.cuda.build.store_rows.RowMaker", "made"),
    "writing rows": ("shards.cuda_tables.SideWriter", "finish"),
    "recording": ("layout.checkpoints", "_record"),
    "sorting into runs": ("shards.cuda_sides", "sorted_runs"),
    "reading runs": ("shards.cuda_sides.RunRows", "rows"),
}


def before(module: str, name: str, act: Callable[[], None]) -> None:
    """Have a function of this process, of a module or a class of one, do something first."""
    path, _, last = f"ooc_graph.{module}".rpartition(".")
    is_class = last[:1].isupper()
    holder = getattr(import_module(path), last) if is_class else import_module(f"{path}.{last}")
    real = getattr(holder, name)

    def call(*given: Any, **named: Any) -> Any:
        act()
        return real(*given, **named)

    setattr(holder, name, call)


def die_once(module: str, name: str, flag: str) -> None:
    """Of all workers the one that takes the flag is killed."""

    def act() -> None:
        if _took(flag):
            os.kill(os.getpid(), signal.SIGKILL)

    before(module, name, act)


def wait_once(module: str, name: str, flag: str, go: str) -> None:
    """Of all workers the one that takes the flag waits for another file."""

    def act() -> None:
        if _took(flag):
            until(Path(go).exists)

    before(module, name, act)


def _took(flag: str) -> bool:
    try:
        Path(flag).unlink()
    except FileNotFoundError:
        return False
    return True


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_workers_task_is_done_by_another(
    moment: str, client: Client, tmp_path: Path
) -> None:
    source: EdgeSource = kronecker()
    options: dict[str, Any] = {}
    if "runs" in moment:
        path = text(tmp_path, gapped=False, weight="float64")
        source = og.edges.open_source(path, header=False, weight=2)
        options["device_memory"] = "5MiB"
    right = on_the_cpu(source, tmp_path / "cpu.zarr")
    flag, pids = tmp_path / "flag", set(client.run(os.getpid).values())
    flag.touch()
    client.run(die_once, *MOMENTS[moment], str(flag))
    built = on_devices(source, tmp_path / "g.zarr", client, **options)
    assert not flag.exists()
    assert built.identity == right.identity
    assert [path.name for path in tmp_path.glob("*partial*")] == []
    with_all(client, len(pids))
    assert len(pids - set(client.run(os.getpid).values())) == 1


CLIENT = """
import sys
from pathlib import Path
from distributed import Client
from tests.gpu.test_cuda_builds import kronecker, on_devices

with Client(sys.argv[1]) as client:
    on_devices(kronecker(), Path(sys.argv[2]), client)
"""


def test_the_same_command_goes_on_after_its_client_was_killed(
    workers: Client, tmp_path: Path
) -> None:
    """While a worker is still at a task of the dead one, which has nowhere to write to."""
    with_all(workers, 2)
    flag, go, out = tmp_path / "flag", tmp_path / "go", tmp_path / "g.zarr"
    flag.touch()
    workers.run(wait_once, *MOMENTS["making rows"], str(flag), str(go))
    words = [sys.executable, "-c", CLIENT, workers.scheduler.address, str(out)]
    with subprocess.Popen(words, cwd=REPOSITORY) as child:
        until(lambda: len(recorded(tmp_path)) >= 2)
        child.kill()
    assert not flag.exists()
    there = chunks_there(tmp_path)
    (attempt,) = tmp_path.glob("g.zarr.partial-*/spill/attempt-*")
    said = Said()
    with ThreadPoolExecutor(1) as thread:
        again = thread.submit(on_devices, kronecker(), out, workers, progress=said)
        until(lambda: not attempt.exists())
        go.touch()
        built = again.result(PAUSE_S)
    assert "counting degrees" not in said.stages
    assert any("going on" in note for note in said.notes)
    # What was recorded is what is in the store, not its like.
    assert {path: (out / path).stat().st_ino for path in there} == there
    assert built.identity == on_the_cpu(kronecker(), tmp_path / "cpu.zarr").identity


KILLED = """
import os, signal, sys
from pathlib import Path
from ooc_graph.layout import checkpoints
from ooc_graph.shards import cuda_plan, cuda_shard_ranges
from tests.gpu.test_cuda_builds import kronecker, on_devices

cuda_shard_ranges.MOST_ARCS = 1 << 17
cuda_plan.CHEAP_ARCS = cuda_plan.MOST_ARCS = 1 << 15
real, made = checkpoints.write_checkpoint, []

def fatal(folder, attempt, name, *given):
    if len(made) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    made.append(name)
    return real(folder, attempt, name, *given)

checkpoints.write_checkpoint = fatal
on_devices(kronecker(), Path(sys.argv[1]), False)
"""


@pytest.mark.parametrize("number", [1, 2])
def test_one_process_goes_on_where_it_was_killed(number: int, tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"
    words = [sys.executable, "-c", KILLED, str(out), str(number)]
    done = subprocess.run(words, cwd=REPOSITORY, check=False, timeout=280)
    assert done.returncode == -signal.SIGKILL
    there = chunks_there(tmp_path)
    assert len(recorded(tmp_path)) == number
    built = on_devices(kronecker(), out, False)
    assert {path: (out / path).stat().st_ino for path in there} == there
    assert built.identity == on_the_cpu(kronecker(), tmp_path / "cpu.zarr").identity
