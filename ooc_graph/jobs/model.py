"""What a job file may say: tables and keys, their types and what they mean.

Names are those of the functions of the API that take the values. Paths are relative to the folder
of the job file.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ooc_graph.jobs.fields import LocationOrUrl, Locations, Name, Size, Table, as_taken
from ooc_graph.jobs.stage_tables import AnyStage
from ooc_graph.model.resources import CudaLimits, parse_bytes
from ooc_graph.types import DeviceName, FileFormat, RowOrders


class KroneckerSource(Table):
    """Edges from Graph500's generator."""

    kind: Literal["kronecker"]
    scale: int = Field(ge=1, le=40, description="log2 of the number of vertices")
    edge_factor: int = Field(default=16, ge=1, description="edges per vertex")
    seeds: list[Annotated[int, Field(ge=0, lt=1 << 64)]] = Field(
        default=[2, 3], min_length=2, max_length=2, description="the generator's two seeds"
    )
    weighted: bool = Field(default=True, description="whether edges have weights")


class FilesSource(Table):
    """Edges in files."""

    kind: Literal["files"]
    path: LocationOrUrl | Annotated[list[LocationOrUrl], Field(min_length=1)] = Field(
        description="a file, several that are parts of one edge list, a folder of parts, or URLs"
    )
    format: FileFormat | None = Field(default=None, description="by name and content unless given")
    directed: bool | None = Field(
        default=None, description="as the file says, else undirected, unless given"
    )
    weight: str | int | bool | None = Field(
        default=None, description="column of the weights, by name or number from 0; false: none"
    )
    columns: Annotated[list[str | int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="columns of source and target, by name or number from 0"
    )
    delimiter: str | None = Field(default=None, description="one character, tab or space")
    header: bool | None = Field(
        default=None, description="whether the first line names the columns"
    )
    weight_type: Literal["int", "float32", "float64"] | None = Field(
        default=None, description="type of the weights; by what is in the file unless given"
    )

    @property
    def paths(self) -> list[str]:
        """All that is named, also if it is one."""
        return [self.path] if isinstance(self.path, str) else self.path


class StoreSource(Table):
    """A graph that is built already; the run builds none."""

    kind: Literal["store"]
    path: LocationOrUrl = Field(description="the graph's store")


class Build(Table):
    """How the graph is built, as `ooc_graph.build` takes it."""

    rows: RowOrders | None = Field(default=None, description="row orders to store")
    shards: int | None = Field(default=None, ge=1, description="virtual shards, a power of two")
    compress: bool = Field(default=False, description="store numbers in as few bits as do")


class LocalCluster(Table):
    """Worker processes on this machine, for the time of the run."""

    kind: Literal["local"]
    workers: int | None = Field(default=None, ge=1, description="processes [1; CUDA: one a device]")


class AddressCluster(Table):
    """A Dask cluster that somebody else runs."""

    kind: Literal["address"]
    address: str = Field(description="of its scheduler, tcp://HOST:PORT or tls://HOST:PORT")
    tls: Locations | None = Field(default=None, description="files for tls://, CA,CERT,KEY")


class SlurmCluster(Table):
    """Workers that are Slurm jobs of their own, for the time of the run: dask-jobqueue's."""

    kind: Literal["slurm"]
    jobs: int = Field(ge=1, description="Slurm jobs, with one worker each")
    cores: int = Field(ge=1, description="cores of each job")
    memory: Size = Field(description="memory of each job")
    walltime: str | None = Field(default=None, description="of each job, as Slurm takes it")
    queue: str | None = Field(default=None, description="Slurm partition")
    account: str | None = Field(default=None, description="Slurm account")
    job_extra_directives: list[str] | None = Field(
        default=None, description="more options of sbatch, one a string"
    )
    interface: str | None = Field(default=None, description="network interface, such as ib0")
    local_directory: str | None = Field(
        default=None, description="folder of a worker's own files on its node"
    )
    wait_s: float = Field(
        default=3600.0,
        ge=0,
        le=31_536_000,
        description="seconds to wait for the jobs to start; then those that have started do it",
    )

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        return as_taken(self, lambda: parse_bytes(self.memory, option="memory"))


class Resources(Table):
    """What the work may use, as the functions of the API take it."""

    device: DeviceName = Field(default="auto", description="where kernels run")
    memory_limit: Size | None = Field(
        default=None, description="host memory of all processes together"
    )
    device_memory: Size | None = Field(default=None, description="memory of a CUDA device")
    host_memory: Size | None = Field(default=None, description="pinned host memory for it; 0: none")

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        def check() -> None:
            parse_bytes(self.memory_limit)
            CudaLimits.of(self.device_memory, self.host_memory).require_cuda(self.device)

        return as_taken(self, check)


class Retries(Table):
    """What is done about errors that may not come again: those with exit code 75."""

    times: int = Field(
        default=0, ge=0, description="how often a stage, or reading what URLs hold, is tried again"
    )
    wait_s: float = Field(
        default=60.0, ge=0, le=86_400, description="seconds before that, a day at most"
    )


Source: TypeAlias = KroneckerSource | FilesSource | StoreSource
Cluster: TypeAlias = LocalCluster | AddressCluster | SlurmCluster


class Job(Table):
    """A job: a graph, what is done with it stage by stage, and with what."""

    name: Name | None = Field(default=None, description="of the job; by default that of its file")
    source: Source = Field(discriminator="kind")
    build: Build | None = Field(default=None, description="how the graph is built")
    stage: list[Annotated[AnyStage, Field(discriminator="kind")]] = Field(
        default=[], description="what is done with the graph, in this order"
    )
    cluster: Cluster | None = Field(
        default=None,
        discriminator="kind",
        description="who does the work; this process unless given",
    )
    resources: Resources = Field(default=Resources(), description="what the work may use")
    retries: Retries = Field(default=Retries(), description="what is tried again")
