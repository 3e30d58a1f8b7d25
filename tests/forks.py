"""Programs that search in forked children; each runs in a process of its own.

``python -m tests.forks NAME FOLDER`` runs one. `tests.test_forks` gives each a deadline.
"""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.engine_keys import Kept
from ooc_graph.strategies.cpu.on_disk import OnDisk
from ooc_graph.strategies.many import on_disk as many_disk
from ooc_graph.strategies.many.tiers import BATCHES

SCALE = 12
EDGES = og.Kronecker(SCALE)
KEYS = EDGES.search_keys(8).tolist()
LIMIT_S = 280
BUDGET_BYTES = 8_000_000
"""Of a search whose arcs stay in the store, where they are asked to."""


@cache
def held() -> og.Graph:
    return og.from_edges(EDGES)


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def tree(graph: og.Graph | str, kernel: str, key: int, **how: Any) -> str:
    found = getattr(og, kernel)(graph, key, device="cpu", **how)
    return digest(found.parent, found.level if kernel == "bfs" else found.distance)


def in_store(store: str, kernel: str) -> str:
    """Searches that leave arcs on the disk, which a small graph's do only if they have to."""

    identity, method = og.open(store).identity, BATCHES if kernel == "apsp" else ""
    strategy: Any = many_disk.OnDisk() if kernel == "apsp" else OnDisk()
    reserved = Reservation(strategy.name, BUDGET_BYTES, method=method)
    key = Key(store, identity, kernel, "cpu", reserved)
    with engine_cache.engine(key, strategy.load) as found:
        if kernel == "apsp":
            return digest(found.search.run(np.arange(2)))
        return digest(found.search.run(0).parent)


def built(folder: Path) -> str:
    """What it is called is of the process and thread alone."""
    out = folder / f"{os.getpid()}-{threading.get_ident()}.zarr"
    return og.build(EDGES, out, device="cpu", overwrite=True).identity


def work(folder: Path) -> dict[str, Callable[[], str]]:
    """Each thing that is done in the parent, and again in its children."""
    store = str(folder / "graph.zarr")
    return {
        "bfs": lambda: tree(held(), "bfs", KEYS[0]),
        "sssp": lambda: tree(held(), "sssp", KEYS[0]),
        "johnson": lambda: digest(og.johnson(held(), KEYS, device="cpu").distance),
        "levels": lambda: digest(og.multi_source_bfs(held(), KEYS, device="cpu").level),
        "components": lambda: digest(og.components(held(), device="cpu").component),
        "from_edges": lambda: tree(og.from_edges(EDGES), "bfs", KEYS[0]),
        "build": lambda: built(folder),
        "stored bfs": lambda: tree(store, "bfs", KEYS[0]),
        "tier bfs": lambda: in_store(store, "bfs"),
        "tier sssp": lambda: in_store(store, "sssp"),
        "tier johnson": lambda: in_store(store, "apsp"),
    }


def forked(child: Callable[[], object]) -> None:
    """Fork; the child calls the function and exits as Python does, with all that is done then."""
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        return
    try:
        child()
    except SystemExit:
        # Of a child's child, which leaves what its parent is in.
        raise
    except BaseException:  # noqa: BLE001 - must not come back into the parent's program
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)


def same(tasks: dict[str, Callable[[], str]], right: dict[str, str], *names: str) -> None:
    for name in names or tasks:
        assert tasks[name]() == right[name], name


def after(folder: Path) -> None:
    """Forks after each of them; the child does it again, and so does the parent."""
    tasks = work(folder)
    for name, do in tasks.items():
        right = {name: do()}
        forked(lambda name=name, right=right: same(tasks, right, name))
        same(tasks, right, name)


def everything_in_each(folder: Path) -> None:
    """A child, its child and the parent do all of it, whatever was done before."""
    tasks = work(folder)
    right = {name: do() for name, do in tasks.items()}

    def child() -> None:
        same(tasks, right)
        forked(lambda: same(tasks, right))
        same(tasks, right, "bfs")

    forked(child)
    same(tasks, right)


def from_a_thread(folder: Path) -> None:
    tasks = work(folder)
    right = {name: do() for name, do in tasks.items()}
    failed: list[BaseException] = []

    def fork() -> None:
        pid = os.fork()
        if not pid:
            try:
                same(tasks, right)
            except BaseException:  # noqa: BLE001 - as above
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            failed.append(AssertionError("the child failed"))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert not failed
    same(tasks, right)


@contextmanager
def meanwhile(do: Callable[[], object]) -> Iterator[None]:
    """Context in which another thread does something again and again."""
    is_over, begun = threading.Event(), threading.Event()

    def loop() -> None:
        while not is_over.is_set():
            begun.set()
            do()

    thread = threading.Thread(target=loop)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def while_another_thread_works(folder: Path) -> None:
    tasks = work(folder)
    right = {name: do() for name, do in tasks.items()}
    for name in tasks:
        with meanwhile(tasks[name]):
            forked(lambda name=name: same(tasks, right, name, "bfs", "sssp", "johnson"))
    same(tasks, right)


def one_of(task: tuple[str, str]) -> str:
    """What a worker of a pool does."""
    folder, name = task
    return work(Path(folder))[name]()


def in_pools(folder: Path, method: str) -> None:
    tasks = work(folder)
    names = [*tasks, *tasks]
    right = {name: do() for name, do in tasks.items()}
    given = [(str(folder), name) for name in names]
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(one_of, given, chunksize=1) == [right[name] for name in names]
        pool.close()
        pool.join()
    same(tasks, right, "bfs")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(one_of, given)) == [right[name] for name in names]
    same(tasks, right)


def in_forked_pools(folder: Path) -> None:
    in_pools(folder, "fork")


def in_spawned_pools(folder: Path) -> None:
    in_pools(folder, "spawn")


def in_pools_of_a_fork_server(folder: Path) -> None:
    in_pools(folder, "forkserver")


def rows_are_shared(folder: Path) -> None:
    """A child that is forked between searches reads nothing again."""
    store = str(folder / "graph.zarr")
    right = tree(store, "bfs", KEYS[0])

    def child() -> None:
        def load(*_: Any) -> Any:
            raise AssertionError("loaded again")

        engine_cache._load = load
        assert tree(store, "bfs", KEYS[0]) == right

    forked(child)
    # What another thread searches with is half done.
    with engine_cache._lock:
        forked(lambda: held_nothing(engine_cache._engines))


def held_nothing(found: dict[Any, Any]) -> None:
    assert not found


def while_compiling(_: Path) -> None:
    """Whoever waits for the compiler would wait for ever."""
    from numba.core.compiler_lock import global_compiler_lock

    right = tree(held(), "bfs", KEYS[0])
    is_held, is_over = threading.Event(), threading.Event()

    def compile_long() -> None:
        with global_compiler_lock:
            is_held.set()
            is_over.wait()

    def child() -> None:
        # What is compiled can be called.
        assert tree(held(), "bfs", KEYS[0]) == right
        with pytest.raises(og.errors.UsageError, match=r"compiling .* spawn"):
            tree(held(), "sssp", KEYS[0])
        forked(lambda: tree(held(), "bfs", KEYS[0]))

    thread = threading.Thread(target=compile_long)
    thread.start()
    is_held.wait()
    try:
        forked(child)
    finally:
        is_over.set()
        thread.join()
    tree(held(), "sssp", KEYS[0])


def while_importing(_: Path) -> None:
    import builtins

    before, is_held, is_over = builtins.__import__, threading.Event(), threading.Event()

    def slow(name: str, *given: Any) -> Any:
        if name == "ooc_graph.validate.wording":
            is_held.set()
            is_over.wait()
        return before(name, *given)

    def child() -> None:
        with pytest.raises(og.errors.UsageError, match=r"importing .* spawn"):
            og.validate  # noqa: B018 - imports it
        # Calls import what they need.
        with pytest.raises(og.errors.UsageError, match=r"importing .* spawn"):
            search(held(), KEYS[0])

    search = og.bfs
    builtins.__import__ = slow
    thread = threading.Thread(target=lambda: og.validate)
    thread.start()
    is_held.wait()
    try:
        forked(child)
    finally:
        is_over.set()
        thread.join()
        builtins.__import__ = before


def in_a_task() -> bool:
    """A task of a worker forks, and its child searches."""
    from ooc_graph.runtime.process import dask_worker

    assert dask_worker() is not None
    right = tree(held(), "bfs", KEYS[0])
    pid = os.fork()
    if not pid:
        os._exit(dask_worker() is not None or tree(held(), "bfs", KEYS[0]) != right)
    return os.waitpid(pid, 0)[1] == 0


def clients_of_the_parent(_: Path) -> None:
    from distributed import Client, Worker

    from ooc_graph.forked import is_parents, require_own_client
    from tests.forks import in_a_task as task

    with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
        require_own_client(client)

        def child() -> None:
            with pytest.raises(og.errors.UsageError, match=r"client .* spawn"):
                require_own_client(client)
            assert tree(held(), "bfs", KEYS[0]) == right
            os._exit(0)

        right = tree(held(), "bfs", KEYS[0])
        forked(child)
        assert client.submit(task).result()
        assert not any(map(is_parents, [client, *Worker._instances]))


def cuda_of_the_parent(_: Path) -> None:
    """What the parent has on a device is neither used nor freed in a child."""
    from types import SimpleNamespace

    from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
    from ooc_graph.runtime import devices, process

    class OnDevice:
        def __del__(self) -> None:
            os.write(2, b"freed")

    runtime = SimpleNamespace(
        getDeviceProperties=lambda _: {"totalGlobalMem": 1 << 30}, CUDARuntimeError=OSError
    )
    cuda = SimpleNamespace(runtime=runtime, Device=lambda: SimpleNamespace(id=0))
    cupy = SimpleNamespace(cuda=cuda)
    cuda_modules.cuda = lambda: cupy
    assert devices.choose_in_process("auto").name == "cuda"
    process._devices["cuda"] = OnDevice()
    key = Key("graph", "", "bfs", "cuda", Reservation("cuda/memory"))
    engine_cache._engines[Kept(key, "0")] = OnDevice()  # type: ignore[assignment]

    def child() -> None:
        chosen = devices.choose_in_process("auto")
        assert chosen.name == "cpu"
        assert "forked" in chosen.why
        with pytest.raises(og.errors.DeviceError, match="spawn"):
            og.bfs(held(), KEYS[0], device="cuda")
        tree(held(), "bfs", KEYS[0])
        assert not process._devices.get("cuda")
        os._exit(0)

    forked(child)
    assert engine_cache._engines
    assert process._devices["cuda"]
    os._exit(0)


def clients_of_the_child(folder: Path) -> None:
    """A child's own cluster, after its parent had one: Dask's threads are the parent's alone."""
    store = str(folder / "graph.zarr")

    # Dask may still have what it holds of a worker's process, though the cluster is closed.
    processes = []

    def search() -> None:
        with og.local_cluster(1) as client:
            processes.extend(nanny.process.process for nanny in client.cluster.workers.values())
            assert tree(store, "bfs", KEYS[0], client=client) == tree(store, "bfs", KEYS[0])

    search()
    forked(search)


def progress_of_the_parent(_: Path) -> None:
    """A lock that another thread holds, and bars that another thread draws."""
    from ooc_graph.report.progress import Progress

    progress = Progress(stream=io.StringIO())

    def child() -> None:
        with progress.stage("search", 1) as stage:
            stage.advance()

    with progress._display._lock:  # type: ignore[attr-defined]
        forked(child)


def locks_on_files(folder: Path) -> None:
    """What a parent held when it was killed is free, though its child lives on."""
    from ooc_graph.layout.locks import locked

    begun, ended = os.pipe(), os.pipe()
    parent = os.fork()
    if not parent:
        with locked(folder / "out.zarr", "first"):
            if not os.fork():
                os.close(ended[1])
                os.write(begun[1], b"+")
                os.read(ended[0], 1)
                os._exit(0)
            time.sleep(LIMIT_S)
    assert os.read(begun[0], 1)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    with locked(folder / "out.zarr", "second"):
        pass
    os.close(ended[1])


def main() -> None:
    name, folder = sys.argv[1:]
    globals()[name](Path(folder))


if __name__ == "__main__":
    main()
