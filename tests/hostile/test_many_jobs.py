"""Jobs one after the other on one cluster: nothing of them stays there, or here."""

from __future__ import annotations

import gc
import json
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

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

SETTLED = 20
"""Jobs after which memory no longer grows, or hardly."""
AT_MOST = 1.02
RANKS = '[[stage]]\nname = "ranks"\nkind = "bfs"\nkeys = 1\nexchange = "scheduler"\n'

jobs = pytest.mark.parametrize(
    "jobs", [3, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """A cluster with the configuration that docs/clusters.md gives to clusters of users."""
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
        found[name] = [process.memory_full_info().uss, process.num_fds(), len(children)]
    return found


def left(arena: Arena, temporary: Path) -> dict[str, object]:
    """What is left in the process that ran the jobs, and in folders."""
    gc.collect()
    shared = [path.name for path in Path("/dev/shm").iterdir() if "ooc" in path.name]
    return {
        "clients": sum(isinstance(one, Client) for one in gc.get_objects()),
        "files of this process": psutil.Process().num_fds(),
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
    settled = SETTLED if jobs > SETTLED else 1
    processes, before = [], None
    for number in range(1, jobs + 1):
        seeds = f"scale = 12\nseeds = [{number}, {number + 1}]"
        file.write_text(cluster + WHOLE.replace("scale = 14", seeds) + RANKS)
        run_job(read_job(file), run, NoProgress(), lambda _: None)
        shutil.rmtree(run)
        arena.until_clean()
        if number >= settled:
            processes.append(of_processes(arena))
        if number == settled:
            before = left(arena, temporary)
    assert left(arena, temporary) == before
    for name in processes[0]:
        memory, files, children = zip(*(one[name] for one in processes), strict=True)
        few = max(1, len(memory) // 10)
        growth = statistics.median(memory[-few:]) / statistics.median(memory[:few])
        print(f"{name}: memory {growth:.3f} times, {max(files)} files, {max(children)} children")
        # A connection may be there or not.
        assert statistics.median(files[-few:]) <= statistics.median(files[:few]) + 1, name
        assert children[-1] == children[0], name
        assert jobs <= SETTLED or growth <= AT_MOST, (name, growth)


@dataclass(eq=False)
class Group:
    """Tasks of one name, none of them at work."""

    in_memory: int
    stop: float
    done = True

    @property
    def states(self) -> dict[str, int]:
        return {"forgotten": 3, "memory": self.in_memory}


def test_spans_are_forgotten_once_their_tasks_are() -> None:
    from distributed.spans import Span, SpansSchedulerExtension

    scheduler = SimpleNamespace(total_nthreads_history=[(0.0, 0)])
    extension = SpansSchedulerExtension(scheduler)  # type: ignore[arg-type]
    now = 1e12
    old = now - scheduler_preload.KEPT_S - 1
    spans: dict[str, Span] = {}
    for name, tasks in {"over": (0, old), "left": (1, old), "late": (0, now)}.items():
        spans[name] = extension._ensure_span(("default",), (name,))
        spans[name].groups.add(Group(*tasks))  # type: ignore[arg-type]
    named = extension._ensure_span(("mine",), ("named",))
    named.groups.add(Group(0, old))  # type: ignore[arg-type]
    scheduler_preload.forget_spans(extension, now)
    kept = [spans["left"], spans["late"]]
    assert list(extension.spans.values()) == [*kept, named]
    assert extension.root_spans == [*kept, named]
    assert extension.spans_search_by_name["default",] == kept
    assert extension.spans_search_by_tag["default"] == kept
