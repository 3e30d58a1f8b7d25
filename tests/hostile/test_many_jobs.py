"""Jobs one after the other on one cluster: nothing of them stays there, or here."""

from __future__ import annotations

import gc
import json
import re
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import dask
import psutil
import pytest
import yaml
from distributed import Client

import ooc_graph as og
from ooc_graph.jobs.driver import run_job
from ooc_graph.jobs.reading import read_job
from ooc_graph.runtime import scheduler_preload
from ooc_graph.types import NoProgress
from tests.hostile.arena import Arena
from tests.job_runs import WHOLE

SETTLED = 100
"""Jobs after which memory no longer grows, or hardly.

Between the 50th and the 90th Python doubles its table of interned strings, once, by 2 MB: names in
messages and paths are such.
"""
FIRST = 20
AT_MOST = 1.02
RANKS = '[[stage]]\nname = "ranks"\nkind = "bfs"\nkeys = 1\nexchange = "scheduler"\n'

jobs = pytest.mark.parametrize(
    "jobs", [2, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """A cluster with the configuration that docs/how-to/clusters.md gives to clusters of users."""
    configuration: dict[str, object] = {}
    dask.config.set(og.dask_config(), config=configuration)
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "ooc-graph.yaml").write_text(yaml.safe_dump(configuration))
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path / "dask"))
    for name, value in og.dask_config()["distributed.nanny.pre-spawn-environ"].items():
        monkeypatch.setenv(name, str(value))
    (tmp_path / "cluster").mkdir()
    found = Arena(tmp_path / "cluster", 2, with_nanny=False)
    try:
        yield found
    finally:
        found.close()


def of_processes(arena: Arena) -> dict[str, list[int]]:
    """Memory of each process in bytes; then its open files and its children."""
    pids = {"scheduler": arena.scheduler_pid}
    pids |= {f"worker {at}": pid for at, pid in enumerate(arena.worker_pids())}
    found = {}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        children = process.children(recursive=True)
        found[name] = [own_bytes(pid), process.num_fds(), len(children)]
    return found


def own_bytes(pid: int) -> int:
    """Resident memory of a process without that of files: other processes may map these, too."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = re.findall(r"^(?:RssAnon|RssShmem):\s*(\d+) kB$", status, re.MULTILINE)
    assert len(kilobytes) == 2
    return 1024 * sum(map(int, kilobytes))


def left(arena: Arena, temporary: Path) -> dict[str, Any]:
    """What is left in the process that ran the jobs, and in folders."""
    gc.collect()
    shared = [path.name for path in Path("/dev/shm").iterdir() if "ooc" in path.name]
    return {
        "clients": sum(type(one) is Client for one in gc.get_objects()),
        # The observer keeps as many connections as it ever needed at once.
        "files of this process": psutil.Process().num_fds() - arena.observer.rpc.open,
        "children of this process": len(psutil.Process().children(recursive=True)),
        "files of the cluster": len(list(arena.folder.rglob("*"))),
        "temporary files": sorted(path.name for path in temporary.iterdir()),
        "shared memory": sorted(shared),
    }


@jobs
def test_jobs_leave_nothing(
    jobs: int, arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    address = json.loads((arena.folder / "scheduler.json").read_text())["address"]
    cluster = f'[cluster]\nkind = "address"\naddress = "{address}"\n'
    file, run = tmp_path / "night.toml", tmp_path / "night"
    first = FIRST if jobs > FIRST else 1
    processes, before = [], None
    for number in range(1, jobs + 1):
        seeds = f"scale = 12\nseeds = [{number}, {number + 1}]"
        file.write_text(cluster + WHOLE.replace("scale = 14", seeds) + RANKS)
        run_job(read_job(file), run, NoProgress(), lambda _: None)
        shutil.rmtree(run)
        arena.until_clean()
        if number >= first:
            processes.append(of_processes(arena))
        if number == first:
            before = left(arena, temporary)
    assert before is not None
    # Of tests before this one some may be left.
    clients = before.pop("clients")
    for _ in range(50):
        after = left(arena, temporary)
        more_clients = after.pop("clients") - clients
        if more_clients <= 0 and after == before:
            break
        sleep(0.1)  # what was closed last may still be at it
    assert more_clients <= 0
    assert after == before
    growths = {}
    for name in processes[0]:
        memory, files, children = zip(*(one[name] for one in processes), strict=True)
        few = max(1, len(memory) // 10)
        begin, settled, end = (
            statistics.median(memory[at : at + few])
            for at in (0, min(SETTLED, jobs) - first, len(memory) - few)
        )
        growths[name] = end / settled
        print(f"{name}: {end / begin:.3f} times, {growths[name]:.3f} since settled; {max(files)}")
        # A connection to either worker may be there or not.
        assert statistics.median(files[-few:]) <= statistics.median(files[:few]) + 2, name
        assert children[-1] == children[0], name
    assert jobs <= SETTLED or max(growths.values()) <= AT_MOST


@dataclass(eq=False)
class Group:
    """Tasks of one name."""

    left: int

    @property
    def states(self) -> dict[str, int]:
        return {"forgotten": 3, "memory": self.left}


def test_unnamed_tasks_have_one_span_and_forgotten_ones_leave_it() -> None:
    from distributed.spans import SpansSchedulerExtension

    scheduler: Any = SimpleNamespace(
        total_nthreads_history=[(0.0, 0)],
        periodic_callbacks={},
        workers={},
        _broker=SimpleNamespace(_topics={}),
    )
    extension = SpansSchedulerExtension(scheduler)
    scheduler.extensions = {"spans": extension}
    scheduler_preload.dask_setup(scheduler)
    span, named = extension._ensure_default_span(), extension._ensure_span(("mine",), ("named",))
    over, left = Group(0), Group(1)
    span.groups.update([over, left])  # type: ignore[list-item]
    span.add_metadata({"collections": [{"type": "array"}]})
    named.groups.add(over)  # type: ignore[arg-type]
    scheduler.periodic_callbacks["ooc-graph-leftovers"].callback()
    assert span.groups == {left}
    assert span.metadata is None
    assert not span._metadata_seen
    assert named.groups == {over}
    left.left = 0
    # Dask would begin another one: all of its tasks are done.
    assert extension._ensure_default_span() is span
    assert extension.root_spans == [span, named]


def test_workers_keep_figures_of_one_span(arena: Arena) -> None:
    for number in range(3):
        arena.observer.submit(abs, number, pure=False).result()
        arena.until_clean()
    spans = arena.observer.run(spans_of)
    assert {len(found) for found in spans.values()} == {1}


def test_workers_that_search_clear_what_is_left(arena: Arena, tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(10), tmp_path / "g.zarr")
    og.bfs(graph, int(graph.original_of()[0]), client=arena.observer)
    for callbacks in arena.observer.run(callbacks_of).values():
        assert "ooc-graph-leftovers" in callbacks


def callbacks_of(dask_worker: Any) -> list[str]:
    return list(dask_worker.periodic_callbacks)


def spans_of(dask_worker: Any) -> set[str]:
    return {key[1] for key in dask_worker.digests_total if key[0] == "execute"}


def test_topics_that_are_empty_and_that_nobody_follows_are_forgotten() -> None:
    from distributed.broker import Broker

    sent: list[Any] = []
    scheduler: Any = SimpleNamespace(
        plugins={}, send_all=lambda *messages, **_: sent.append(messages)
    )
    scheduler._broker = Broker(10, scheduler)
    for topic in ("gone", "followed", "full"):
        scheduler._broker.publish(topic, "event")
    scheduler._broker.subscribe("followed", "client")
    for topic in ("gone", "followed"):
        scheduler._broker.truncate(topic)
    scheduler_preload.forget_topics(scheduler)
    assert set(scheduler._broker._topics) == {"followed", "full"}
