"""The clusters that the command starts or joins."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Timer
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.comm.core import CommClosedError

from ooc_graph.errors import ClusterLostError, DeviceError, DiskFullError, UsageError
from ooc_graph.exchange.worker_states import within
from ooc_graph.layout.whole_file import raise_if_full
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime.dask_configuration import dask_config
from ooc_graph.runtime.devices import choose_in_process, device_count, has_rmm
from ooc_graph.runtime.joined_cluster import CONNECT_S, GRACE_S
from ooc_graph.runtime.machine import KEPT_BYTES
from ooc_graph.runtime.signals import signals_deferred
from ooc_graph.settings import patience_s
from ooc_graph.threads import cores

# A terminal sends Ctrl-C to workers too, and SIGHUP if it is closed. They must not die of it before
# this process has cancelled what they do, or it would wait for them without end. Before they come
# to this, they are started with both blocked (`_without_interrupts`).
_PRELOAD = [
    "import signal\n"
    "for number in (signal.SIGINT, signal.SIGHUP):\n"
    "    signal.signal(number, signal.SIG_IGN)"
]


@contextmanager
def local_cluster(workers: int = 1) -> Iterator[Client]:
    """A cluster of worker processes that listens on the loopback interface only.

    Parameters
    ----------
    workers
        Number of worker processes; they share the cores.

    Yields
    ------
    Client of the cluster, which is closed at the end.

    Raises
    ------
    ClusterLostError
        If its workers do not start within the patience (``ooc-graph.patience`` in Dask's
        configuration).
    """
    with _local(workers, LocalCluster, {"processes": True}) as client:
        yield client


@contextmanager
def local_cuda_cluster(workers: int | None = None) -> Iterator[Client]:
    """A cluster of one worker process for each CUDA device of this machine, on the loopback.

    Arrays on the devices come from RMM's pool if it is installed: the driver's own one
    (``cudaMallocAsync``). DeviceError if there is no device, no dask-cuda, or RMM cannot be
    imported.
    """
    devices = device_count()
    if workers is not None and workers > devices:
        raise UsageError(
            f"--workers {workers}: CUDA workers have a device each, and {devices} can be seen here"
        )
    try:
        from dask_cuda import LocalCUDACluster  # noqa: PLC0415 (only where there is a device)
    except ImportError as error:
        raise DeviceError(
            f"a cluster of CUDA workers needs dask-cuda ({error}): pip install 'ooc-graph[cuda13]'"
        ) from error
    options: dict[str, object] = {"device_memory_limit": 0, "protocol": "tcp", "preload": _PRELOAD}
    if has_rmm():
        options |= {
            "rmm_async": True,
            # What is free must be seen as free: budgets are made of it.
            "rmm_release_threshold": KEPT_BYTES,
            "rmm_allocator_external_lib_list": ["cupy"],
        }
    with _local(devices if workers is None else workers, LocalCUDACluster, options) as client:
        yield client


@contextmanager
def cluster_of_machine(
    device: str, workers: int | None, note: Callable[[str], object]
) -> Iterator[Client]:
    """A cluster of this machine: of CUDA workers if they are asked for, or there for ``auto``.

    ``workers`` are by default one a CUDA device, or one; ``note`` gets a line if ``auto`` finds
    devices that no cluster can be made of.
    """
    with ExitStack() as stack:
        if choose_in_process(device).name == CUDA:
            try:
                client = stack.enter_context(local_cuda_cluster(workers))
            except (UsageError, ClusterLostError) as error:
                if device == CUDA:
                    raise
                note(f"starting workers without a device of their own: {error}")
                client = stack.enter_context(local_cluster(1 if workers is None else workers))
        else:
            client = stack.enter_context(local_cluster(1 if workers is None else workers))
        yield client


@contextmanager
def _local(workers: int, kind: Any, options: dict[str, object]) -> Iterator[Client]:
    if workers < 1:
        raise UsageError(f"--workers {workers}: give at least 1")
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with ExitStack() as stack:
        configuration = {**dask_config(), "distributed.worker.preload": _PRELOAD}
        stack.enter_context(dask.config.set(configuration))
        try:
            yield _started(stack, workers, partial(kind, **options))
        finally:
            # A second interrupt would leave workers to the end of the process, and Dask complains.
            with signals_deferred():
                stack.close()


def _started(stack: ExitStack, workers: int, kind: Callable[..., LocalCluster]) -> Client:
    """Client of a new local cluster; the stack closes both.

    Signals wait meanwhile: of a cluster that is half there Dask leaves workers and tracebacks.
    """
    folder = _temporary_folder()
    try:
        with signals_deferred(), _without_interrupts(), _begun_in_time():
            make = partial(
                kind,
                n_workers=workers,
                threads_per_worker=max(1, cores() // workers),
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
            cluster = stack.enter_context(within(patience_s() + GRACE_S, make))
            client: Client = stack.enter_context(within(CONNECT_S, partial(Client, cluster)))
    except (TimeoutError, CommClosedError, RuntimeError) as error:
        raise_if_full(error.__cause__, folder / "workers", "no workers were started")
        # Some timeouts say nothing.
        why = str(error) or type(error).__name__
        raise ClusterLostError(
            f"the local cluster of {workers} worker(s) did not start ({why}); run the "
            "command again, with fewer --workers if the machine is busy"
        ) from error
    return client


def _temporary_folder() -> Path:
    """Where workers write what they have to; Dask removes what killed ones left there."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise DiskFullError(
            f"{error.strerror}: they are full or cannot be written; free some space, or set TMPDIR "
            "to a folder that has some, and run the command again"
        ) from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Context in which threads begin that never get SIGINT or SIGHUP, nor do their processes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    # Python starts it where it first starts a process, and unblocks SIGINT there.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _begun_in_time() -> Iterator[None]:
    """Context whose processes are killed if it does not end within the patience.

    Dask waits for a worker that is frozen while it starts without end; of a dead one it says so.
    """
    before = set(multiprocessing.active_children())

    def kill() -> None:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()

    timer = Timer(patience_s(), kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
