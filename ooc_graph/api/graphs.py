"""The public functions that make graphs: build a store, open one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ooc_graph.boundary import public
from ooc_graph.errors import UsageError
from ooc_graph.model.resources import CudaLimits, parse_bytes
from ooc_graph.remote.urls import file_path
from ooc_graph.report.adapters import reporter_of
from ooc_graph.runtime.workplace import client_meant, workplace_for
from ooc_graph.shards.load import Graph
from ooc_graph.shards.memory_graph import MemoryGraph
from ooc_graph.types import (
    DeviceName,
    FileFormat,
    ProgressLike,
    RowOrders,
    WeightType,
)

if TYPE_CHECKING:
    from distributed import Client

    from ooc_graph.edges.options import Column


@public
def build(
    edges: Any,
    /,
    out: str | Path,
    *,
    format: FileFormat | None = None,  # noqa: A002 - the option's name
    directed: bool | None = None,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | bool | None = None,
    columns: Sequence[Column] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    weight_type: WeightType | None = None,
    rows: RowOrders | None = None,
    shards: int | None = None,
    compress: bool = False,
    client: Client | Literal[False] | None = None,
    device: DeviceName = "auto",
    device_memory: str | int | None = None,
    memory_limit: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> Graph:
    """Build a graph store from edges, and open it.

    Parameters
    ----------
    edges
        A `Kronecker`, or anything that `open_source` accepts.
    out
        Folder of the store, whose name usually ends in ``.zarr``; it appears when it is complete.
    format, directed, source, target, weight, columns, delimiter, header, weight_type
        As for `open_source`.
    rows
        ``hub``, ``light`` or ``both`` row orders; None: both if there are weights, otherwise hub.
    shards
        Number of virtual shards, a power of two; None: by the size of the graph.
    compress
        Store offsets, neighbours and integer weights in as few bits as they need: searches read
        less, and answers are the same.
    client
        Dask client whose workers build; None: the current one if there is one, otherwise this
        process, with all its cores; False: this process.
    device
        ``cuda``: the CUDA device of this process, or of each worker, sorts; ``cpu``; ``auto``: CUDA
        if there is a suitable device. The store has the same bytes.
    device_memory
        Bytes (or "4GiB") of each CUDA device that the build may use; None: nearly all that is free.
    memory_limit
        Bytes (or "4GiB") of host memory for all processes of the build together.
    overwrite
        Replace an existing store.
    progress
        What shows the progress of the build; see `bfs`.

    Raises
    ------
    InputError, UsageError, OutputExistsError, MemoryBudgetError
        Bad input or a call that cannot be carried out; nothing is written.
    DeviceError
        If ``cuda`` is requested and no device can be used.
    DiskFullError, OutputBusyError, DeviceBusyError
        Worth trying again; nothing is written.

    Examples
    --------
    >>> import ooc_graph as og
    >>> g = og.build("edges.txt", "edges.zarr")  # doctest: +SKIP
    """
    given = locals()
    if out is None:
        raise UsageError("out: give a path for the store; from_edges() makes a graph in memory")
    path = file_path(out, "out")
    # No search needs what a build does, and it takes long to import.
    from ooc_graph.edges import open_source  # noqa: PLC0415
    from ooc_graph.edges.options import EdgeOptions  # noqa: PLC0415
    from ooc_graph.runtime.building import build_with_report  # noqa: PLC0415
    from ooc_graph.shards.build_options import BuildOptions  # noqa: PLC0415

    opened = open_source(edges, **{name: given[name] for name in EdgeOptions.__annotations__})
    chosen = BuildOptions(rows=rows, shards=shards, overwrite=overwrite, compress=compress)
    limits = CudaLimits.of(device_memory, None).require_cuda(device)
    client = client_meant(client)
    reporter = reporter_of(progress)
    shown = None if progress is None else reporter
    workplace = workplace_for(client, parse_bytes(memory_limit), device, limits, shown)
    graph, _ = build_with_report(workplace, opened, path, chosen, reporter)
    return graph


@public
def open_graph(path: str | Path) -> Graph:
    """Open a built graph; takes well under a second at any size.

    A graph at a URL (``s3://``, ``gs://``, ``az://``, ``https://``) is copied to the cache folder
    first, except files that are there already; each file is compared with the manifest.

    Raises
    ------
    NotAStoreError, CorruptStoreError
        If there is no finished store at the path, or a file differs from the manifest.
    StoreReplacedError
        If the store is replaced repeatedly meanwhile.
    InputError, UsageError, NetworkError, DiskFullError, OutputBusyError
        If a store at a URL cannot be fetched.
    """
    return Graph.open(path)


def located(
    *,
    graph: Graph | str | Path,
    out: str | Path | None,
    client: Client | Literal[False] | None,
    device: str,
    memory_limit: str | int | None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    progress: ProgressLike,
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a search, opened; and its workplace, progress and result's folder."""
    limits = CudaLimits.of(device_memory, host_memory).require_cuda(device)
    if isinstance(graph, MemoryGraph):
        if client:
            raise UsageError(
                "a graph in memory is searched in this process alone; leave client= out, or make a "
                "store of the edges with build()"
            )
        client = False
    client = client_meant(client)
    reporter = reporter_of(progress)
    shown = None if progress is None else reporter
    return graph if isinstance(graph, Graph) else Graph.open(graph), {
        "workplace": workplace_for(client, parse_bytes(memory_limit), device, limits, shown),
        "progress": reporter,
        "out": None if out is None else file_path(out, "out"),
    }
