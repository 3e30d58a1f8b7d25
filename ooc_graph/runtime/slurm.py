"""Workers that are Slurm jobs, as dask-jobqueue submits them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import dask
from distributed import Client, Status
from distributed.comm.core import CommClosedError
from distributed.security import Security

from ooc_graph.errors import ClusterLostError, MissingLibraryError, UsageError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.worker_states import within
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime.dask_configuration import dask_config
from ooc_graph.runtime.joined_cluster import CONNECT_S
from ooc_graph.runtime.machine import KEPT_BYTES
from ooc_graph.runtime.signals import signals_deferred

_LOOK_EVERY_S = 1.0
_LOOPBACK = "127.0.0.1:0"
# What sbatch says of a controller that may answer later.
_PASSING = ("Unable to contact slurm controller", "Socket timed out", "Connection refused")
_CUDA_WORKER = "dask cuda worker"
# As `ooc_graph.runtime.cluster.local_cuda_cluster` has it.
_CUDA_ARGUMENTS = [
    *("--device-memory-limit", "0", "--rmm-async", "--rmm-release-threshold", str(KEPT_BYTES)),
    *("--set-rmm-allocator-for-libs", "cupy"),
]


@contextmanager
def slurm_cluster(
    jobs: int,
    options: Mapping[str, Any],
    device: str,
    keys: Path,
    wait_s: float,
    note: Callable[[str], object],
) -> Iterator[Client]:
    """A cluster whose scheduler is in this process, and whose workers are Slurm jobs, under TLS.

    Parameters
    ----------
    jobs
        Slurm jobs, with a worker each.
    options
        See `scheduler_for`.
    device
        ``cuda``: workers have a CUDA device each.
    keys
        Folder for certificates, which the nodes see. It is made anew, and removed at the end.
    wait_s
        Seconds to wait for the jobs to start. Then those that have are the cluster.
    note
        Gets a line if fewer have started.

    Yields
    ------
    Client of the cluster, which is closed at the end; its jobs are cancelled then.

    Raises
    ------
    UsageError
        If something is missing here, or Slurm refuses the jobs.
    ClusterLostError
        If no job starts in time, or Slurm does not answer.
    """
    refused: list[str] = []
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(dask_config()))
        try:
            with signals_deferred():
                client, cluster = _started(stack, options, device, keys, refused.append)
            if shutil.which("sbatch") is None:
                raise UsageError("there is no sbatch here: run this where Slurm jobs are submitted")
            cluster.scale(jobs=jobs)
            _wait_for(client, jobs, refused, wait_s, note)
            yield client
        finally:
            # Jobs that nobody cancels wait for a scheduler that is gone.
            with signals_deferred():
                stack.close()


def _started(
    stack: ExitStack,
    options: Mapping[str, Any],
    device: str,
    keys: Path,
    refused: Callable[[str], object],
) -> tuple[Client, Any]:
    """Client of a scheduler without workers, and that; the stack closes both."""
    try:
        cluster = stack.enter_context(scheduler_for(options, device, keys, refused))
        client: Client = stack.enter_context(within(CONNECT_S, partial(Client, cluster)))
    except (TimeoutError, CommClosedError, RuntimeError) as error:
        why = str(error.__cause__ or error) or type(error).__name__
        if isinstance(error.__cause__, ValueError):  # such as an interface that is not there
            raise UsageError(f"the scheduler cannot start: {why}") from error
        raise ClusterLostError(f"the scheduler did not start ({why}); try again") from error
    return client, cluster


@contextmanager
def scheduler_for(
    options: Mapping[str, Any], device: str, keys: Path, refused: Callable[[str], object]
) -> Any:
    """A scheduler in this process for workers in Slurm jobs; there are none of these yet.

    ``options`` are those of ``dask_jobqueue.SLURMCluster``; ``jobqueue.slurm`` in Dask's
    configuration has others. ``refused`` gets why a job could not be submitted. UsageError if
    dask-jobqueue is not installed.
    """
    try:
        import cryptography  # noqa: F401, PLC0415 (makes Dask's certificates)
        from dask_jobqueue import SLURMCluster  # noqa: PLC0415 (only where there is Slurm)
    except ImportError as error:
        raise MissingLibraryError(
            f"a cluster of Slurm jobs needs dask-jobqueue ({error}): pip install 'ooc-graph[slurm]'"
        ) from error
    site = partial(dask.config.get, default=None)
    directives = options.get("job_extra_directives")
    if directives is None:
        directives = site("jobqueue.slurm.job-extra-directives") or []
    arguments = ["--no-dashboard", "--dashboard-address", _LOOPBACK]
    given = {name: value for name, value in options.items() if value is not None}
    if device == CUDA:
        if not any("gpu" in one.lower() or one.lstrip().startswith("-G") for one in directives):
            directives = [*directives, "--gres=gpu:1"]
        given["worker_command"] = _CUDA_WORKER
        arguments += _CUDA_ARGUMENTS
    given["job_extra_directives"] = list(directives)
    configuration: dict[str, Any] = {}
    dask.config.set(dask_config(), config=configuration)
    inherited = f"export DASK_INTERNAL_INHERIT_CONFIG={dask.config.serialize(configuration)}"
    given["job_script_prologue"] = [*(site("jobqueue.slurm.job-script-prologue") or []), inherited]
    given["worker_extra_args"] = [*(site("jobqueue.slurm.worker-extra-args") or []), *arguments]
    with (
        _certificates(keys) as security,
        SLURMCluster(
            job_cls=_job_class(refused),
            processes=1,
            security=security,
            scheduler_options={"dashboard_address": _LOOPBACK},
            **given,
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _certificates(folder: Path) -> Iterator[Security]:
    """Certificates in files that jobs find, for their owner alone.

    Those that dask-jobqueue would make stay until the garbage collector comes.
    """
    made, folder = Security.temporary(), folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        cert, key = folder / "cert.pem", folder / "key.pem"
        cert.write_text(made.tls_ca_file)
        key.write_text(made.tls_client_key)
        for_role = {
            f"tls_{role}_{name}": str(path)
            for role in ("client", "scheduler", "worker")
            for name, path in (("cert", cert), ("key", key))
        }
        yield Security(tls_ca_file=str(cert), require_encryption=True, **for_role)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _job_class(refused: Callable[[str], object]) -> type:
    from dask_jobqueue.slurm import SLURMJob  # noqa: PLC0415

    class NotedJob(SLURMJob):  # type: ignore[misc]
        """A job that says why it was refused: Dask would only log it, and wait."""

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, OSError, ValueError) as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                refused(lines[-1])
                self.status = Status.running

    return NotedJob


def _wait_for(
    client: Client, jobs: int, refused: list[str], wait_s: float, note: Callable[[str], object]
) -> None:
    deadline = monotonic() + wait_s
    while (started := len(Cluster.of(client).look())) < jobs:
        if refused:
            kind = ClusterLostError if any(one in refused[0] for one in _PASSING) else UsageError
            raise kind(f"Slurm refuses a job: {refused[0]}")
        if monotonic() > deadline:
            break
        sleep(_LOOK_EVERY_S)
    else:
        return
    if not started:
        raise ClusterLostError(
            f"none of {jobs} Slurm job(s) has joined as a worker within {wait_s:g} s; look at "
            "squeue, and at the slurm-*.out of jobs that have ended"
        )
    note(f"going on with {started} of {jobs} Slurm jobs: others have not started in {wait_s:g} s")
