"""A Dask cluster of processes that are killed, stopped, paused, retired and restarted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

DEADLINE_S = 120.0
_RESTART_S = 30.0
_QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Arena:
    """Scheduler and workers, each a process of its own.

    Parameters
    ----------
    folder
        For their files.
    workers
        How many.
    with_nanny
        Whether a nanny restarts a worker that ends.
    """

    def __init__(self, folder: Path, workers: int, *, with_nanny: bool) -> None:
        self.folder, self.size, self.with_nanny = folder, workers, with_nanny
        self._file = folder / "scheduler.json"
        self._members: list[subprocess.Popen[bytes]] = []
        self._scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self._file)
        self._stopped: set[int] = set()
        self.until(self._file.exists)
        for _ in range(workers):
            self._add_worker()
        self.observer = self.connect()
        self.until(lambda: len(self.worker_pids()) == workers)

    def _start(self, kind: str, *words: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--host", "127.0.0.1"]
        command += ["--no-dashboard", *map(str, words)]
        env = {**os.environ, "DASK_OOC_GRAPH__PATIENCE": "6s"}
        return subprocess.Popen(command, cwd=self.folder, env=env, **_QUIET)  # type: ignore[call-overload]

    def _add_worker(self) -> None:
        words = ["--nanny" if self.with_nanny else "--no-nanny", "--nthreads", 1]
        words += ["--memory-limit", 0, "--local-directory", self.folder / "workers"]
        self._members.append(self._start("worker", "--scheduler-file", self._file, *words))

    def connect(self) -> Client:
        """Return a new client."""
        return Client(scheduler_file=str(self._file), timeout=30, set_as_default=False)

    def until(self, met: Callable[[], object], seen: Callable[[], object] = str) -> None:
        """Wait until something is met; if that does not come, say what is seen instead."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not met():
            assert time.monotonic() < deadline_s, f"the cluster did not recover: {seen()}"
            time.sleep(0.05)

    def until_clean(self) -> None:
        """Wait until calls have left nothing on scheduler and workers."""
        self.until(lambda: not self.leftovers(), self.leftovers)

    def worker_pids(self) -> list[int]:
        """Processes of the workers that the scheduler has."""
        found = self.observer.sync(_pids, self.observer, callback_timeout=DEADLINE_S)
        return sorted(pid for pid in found if isinstance(pid, int))

    def send(self, number: int, pids: list[int]) -> None:
        """Send a signal to processes, as far as they are there."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            self._stopped |= set(pids)

    @property
    def scheduler_pid(self) -> int:
        """Process of the scheduler."""
        return self._scheduler.pid

    def kill_scheduler(self) -> None:
        """End the scheduler's process."""
        self._scheduler.kill()
        self._scheduler.wait()

    def heal(self) -> bool:
        """Bring the cluster back to what it was; whether that is possible."""
        self.heal_signals()
        if self._scheduler.poll() is not None or self.observer.status != "running":
            return False
        restart_s = time.monotonic() + _RESTART_S

        def is_whole() -> bool:
            nonlocal restart_s
            if time.monotonic() > restart_s:
                # A nanny whose worker was retired may stay without one.
                restart_s += _RESTART_S
                for member in self._members:
                    member.kill()
                    member.wait()
            self._replace_ended()
            with suppress(OSError):
                self.observer.run(_resume, on_error="ignore")
            return len(self.worker_pids()) == self.size

        self.until(is_whole, self.worker_pids)
        return True

    def _replace_ended(self) -> None:
        self._members = [member for member in self._members if member.poll() is None]
        while len(self._members) < self.size:
            self._add_worker()

    def heal_signals(self) -> None:
        """Let all processes go on that were stopped."""
        self.send(signal.SIGCONT, sorted(self._stopped))
        self._stopped.clear()

    def leftovers(self) -> dict[str, Any]:
        """What calls have left on scheduler and workers."""
        tasks = self.observer.run_on_scheduler(_task_keys)
        workers = self.observer.run(_left_on_worker, on_error="ignore")
        left = {address: found for address, found in workers.items() if found}
        return {"tasks": tasks, **left} if tasks else left

    def close(self) -> None:
        """End all processes."""
        members = [self._scheduler, *self._members]
        children: list[psutil.Process] = []
        for member in members:
            with suppress(psutil.NoSuchProcess):
                children += psutil.Process(member.pid).children(recursive=True)
        for member in members:
            member.kill()
            member.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        with suppress(Exception):
            self.observer.close(timeout=5)


async def _pids(client: Any) -> list[Any]:
    told = await client.scheduler.identity(n_workers=-1)
    working = [a for a, worker in told["workers"].items() if worker["status"] == "running"]
    answers = await client._run(os.getpid, workers=working, on_error="return")
    return list(answers.values())


def _resume(dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = False
    if dask_worker.status.name == "paused":
        dask_worker.status = type(dask_worker.status).running


def pause(dask_worker: Any) -> None:
    """Have a worker be paused, as if it had too much memory."""
    dask_worker.status = type(dask_worker.status).paused


def _task_keys(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def _left_on_worker(dask_worker: Any) -> list[str]:
    plugin = dask_worker.plugins.get("ooc-graph-exchange")
    boxes = [] if plugin is None else [f"postbox {name}" for name in plugin._boxes]
    return boxes + [f"result {key}" for key in dask_worker.data]


Harm = Callable[[Arena, random.Random, Client], None]


def _some(arena: Arena, draw: random.Random) -> list[int]:
    """One of the workers, or all of them."""
    pids = arena.worker_pids()
    return pids if draw.random() < 0.3 else pids[:1]


def kill(arena: Arena, draw: random.Random, _: Client) -> None:
    """An out-of-memory kill looks the same."""
    arena.send(signal.SIGKILL, _some(arena, draw))


def stop(arena: Arena, draw: random.Random, _: Client) -> None:
    """Freeze until the round is over."""
    arena.send(signal.SIGSTOP, _some(arena, draw))


def stop_for_a_while(arena: Arena, draw: random.Random, _: Client) -> None:
    """Freeze for longer than an answer may take, or shorter."""
    pids = _some(arena, draw)
    arena.send(signal.SIGSTOP, pids)
    time.sleep(draw.uniform(0.5, 7))
    arena.send(signal.SIGCONT, pids)


def _addresses(arena: Arena, draw: random.Random) -> list[str]:
    workers = sorted(arena.observer.scheduler_info(n_workers=-1)["workers"])
    return workers if draw.random() < 0.3 else workers[:1]


def pause_some(arena: Arena, draw: random.Random, _: Client) -> None:
    """As Dask does when memory is short."""
    arena.observer.run(pause, workers=_addresses(arena, draw), on_error="ignore")


def retire(arena: Arena, draw: random.Random, _: Client) -> None:
    """A graceful end; with a nanny the worker does not come back."""
    arena.observer.retire_workers(_addresses(arena, draw)[:1])


def restart(arena: Arena, draw: random.Random, _: Client) -> None:
    """All workers of nannies begin anew, and all tasks are forgotten."""
    arena.observer.restart(wait_for_workers=False, timeout=30)


def kill_scheduler(arena: Arena, draw: random.Random, _: Client) -> None:
    """Its walltime is over."""
    arena.kill_scheduler()


def stop_scheduler(arena: Arena, draw: random.Random, _: Client) -> None:
    """Freeze until the round is over."""
    arena.send(signal.SIGSTOP, [arena.scheduler_pid])


def stop_scheduler_for_a_while(arena: Arena, draw: random.Random, _: Client) -> None:
    """Freeze, and go on."""
    arena.send(signal.SIGSTOP, [arena.scheduler_pid])
    time.sleep(draw.uniform(0.5, 7))
    arena.send(signal.SIGCONT, [arena.scheduler_pid])


def close_client(arena: Arena, draw: random.Random, client: Client) -> None:
    """Another thread of the caller closes the client that is at work."""
    client.close(timeout=5)


HARMS: dict[str, Harm] = {
    "kill": kill,
    "stop": stop,
    "stop for a while": stop_for_a_while,
    "pause": pause_some,
    "retire": retire,
    "restart": restart,
    "kill scheduler": kill_scheduler,
    "stop scheduler": stop_scheduler,
    "stop scheduler for a while": stop_scheduler_for_a_while,
    "close client": close_client,
}


@contextlib.contextmanager
def arena_of(folder: Path, workers: int, *, with_nanny: bool) -> Iterator[Arena]:
    """Context with a cluster that ends with it, whatever was done to it."""
    folder.mkdir()
    arena = Arena(folder, workers, with_nanny=with_nanny)
    try:
        yield arena
    finally:
        arena.heal_signals()
        arena.close()
