"""Where work is done: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ooc_graph.errors import UsageError
from ooc_graph.forked import require_own_client
from ooc_graph.model.resources import AUTO, NO_LIMITS, CudaLimits
from ooc_graph.runtime.on_cluster import OnCluster
from ooc_graph.runtime.this_process import LOG, ThisProcess
from ooc_graph.types import Progress

if TYPE_CHECKING:
    from distributed import Client


Workplace: TypeAlias = ThisProcess | OnCluster
"""Runs tasks; ``client`` is None if there is no cluster."""


def workplace_for(
    client: Client | None,
    limit_bytes: int | None,
    wanted: str = AUTO,
    cuda_limits: CudaLimits = NO_LIMITS,
    progress: Progress | None = None,
) -> Workplace:
    """A client's cluster, or this process, with the device ``wanted``.

    ``progress`` gets a line if a worker cannot continue; None: the log ``ooc_graph``.
    UsageError if ``client`` is no synchronous Dask client.
    """
    if client is None:
        return ThisProcess(limit_bytes, wanted, cuda_limits)
    require_client(client)
    note = LOG.warning if progress is None else progress.note
    return OnCluster(client, limit_bytes, wanted, cuda_limits, note)


def require_client(client: object) -> None:
    """Refuse what is no synchronous Dask client, with a UsageError."""
    from distributed import Client  # noqa: PLC0415 (a run without a cluster needs no Dask)

    if not isinstance(client, Client):
        raise UsageError(
            f"client: give a dask.distributed.Client, not {type(client).__name__}; of a cluster or "
            "a scheduler's address make one with Client(...)"
        )
    require_own_client(client)
    if client.asynchronous:
        raise UsageError("client: give a synchronous Dask client (asynchronous=False)")
