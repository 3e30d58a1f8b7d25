"""Who does the work of a job, and with what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from ooc_graph.jobs.model import AddressCluster, Cluster, Job, LocalCluster, SlurmCluster
from ooc_graph.model.resources import CPU, CUDA, parse_bytes
from ooc_graph.types import Progress


class Workplace:
    """The cluster of a job, started or joined when the first step asks for it, or this process.

    ``keys`` is where a cluster that has certificates of its own puts them.
    """

    def __init__(self, job: Job, progress: Progress, keys: Path) -> None:
        self.resources, self.progress, self.keys = job.resources, progress, keys
        self._cluster, self._stack = job.cluster, ExitStack()

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; the next step starts or joins it again."""
        self.__dict__.pop("client", None)
        self._stack.close()

    @cached_property
    def client(self) -> Any:
        """As the functions of the API take it: False is this process."""
        if self._cluster is None:
            return False
        start = _STARTS[type(self._cluster)]
        return self._stack.enter_context(start(self._cluster, self))

    @property
    def workers(self) -> int:
        """Processes that can search at once. ClusterLostError: the scheduler does not answer."""
        if not self.client:
            return 1
        from ooc_graph.exchange import cluster  # noqa: PLC0415 (imports Dask)

        return len(cluster.Cluster.of(self.client).look())

    def options(self, *names: str) -> dict[str, Any]:
        """``client``, ``progress`` and ``memory_limit``, and resources of these names."""
        chosen = {name: getattr(self.resources, name) for name in ("memory_limit", *names)}
        return {"client": self.client, "progress": self.progress, **chosen}

    def cpu_options(self) -> dict[str, Any]:
        """`options` of what CPUs alone do: no CUDA device, also where the job asks for one."""
        device = CPU if self.resources.device == CUDA else self.resources.device
        return self.options() | {"device": device}


def _local(cluster: LocalCluster, workplace: Workplace) -> AbstractContextManager[Any]:
    from ooc_graph.runtime.cluster import cluster_of_machine  # noqa: PLC0415 (imports Dask)

    return cluster_of_machine(workplace.resources.device, cluster.workers, workplace.progress.note)


def _joined(cluster: AddressCluster, _: Workplace) -> AbstractContextManager[Any]:
    from ooc_graph.runtime.joined_cluster import joined_cluster  # noqa: PLC0415 (imports Dask)

    return joined_cluster(cluster.address, cluster.tls)


def _in_slurm_jobs(cluster: SlurmCluster, workplace: Workplace) -> AbstractContextManager[Any]:
    from ooc_graph.runtime.slurm import slurm_cluster  # noqa: PLC0415 (imports Dask)

    options = cluster.model_dump(exclude={"kind", "jobs", "wait_s", "memory"})
    options["memory"] = f"{parse_bytes(cluster.memory)}B"
    device, note = workplace.resources.device, workplace.progress.note
    return slurm_cluster(cluster.jobs, options, device, workplace.keys, cluster.wait_s, note)


_STARTS: dict[type[Cluster], Callable[[Any, Workplace], AbstractContextManager[Any]]] = {
    LocalCluster: _local,
    AddressCluster: _joined,
    SlurmCluster: _in_slurm_jobs,
}
"""By kind of cluster: the context of its client."""
