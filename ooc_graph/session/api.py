"""The Python API: what the command does, as functions; further ones stand in `api_*`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ooc_graph.answers.result import (
    BfsResult,
    ComponentsResult,
    SsspResult,
    TreeResult,
)
from ooc_graph.boundary import public
from ooc_graph.edges import open_source
from ooc_graph.edges.interface import EdgeSource, most_rows
from ooc_graph.errors import DiskFullError, UsageError
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.report.host import host_facts, package_versions
from ooc_graph.session.building import build as build_store
from ooc_graph.session.components import components as find_components
from ooc_graph.session.devices import AUTO, CudaLimits
from ooc_graph.session.machine import parse_bytes
from ooc_graph.session.place import place_for
from ooc_graph.session.search import search
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.in_memory import MemoryGraph
from ooc_graph.shards.load import Graph
from ooc_graph.types import NoProgress, Progress

if TYPE_CHECKING:
    from distributed import Client


@public
def build(
    source: Any,
    out: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the option's name
    directed: bool | None = None,
    weight: Any = None,
    rows: str | None = None,
    shards: int | None = None,
    compress: bool = False,
    client: Client | None = None,
    device: str = AUTO,
    device_memory: str | int | None = None,
    memory_limit: str | int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Graph:
    """Build a graph store from edges, and open it.

    Parameters
    ----------
    source
        A path, several paths, a `Kronecker`, arrays, a Dask DataFrame or array.
    out
        Folder of the store, by custom ending in ``.zarr``; it appears when it is complete.
    format
        Name of the file format; None: by name and content.
    directed
        Whether (u, v) leads from u to v only; None: what the file says.
    weight
        Column of the weights, by name or index; False: none; None: what the format says.
    rows
        ``hub``, ``light`` or ``both`` row orders; None: both where there are weights, else hub.
    shards
        Number of virtual shards, a power of two; None: by the size of the graph.
    compress
        Store offsets, neighbours and integer weights in the bits that they need: less is read,
        and answers are the same.
    client
        Dask client whose workers build; None: this process, with all its cores.
    device
        ``cuda``: a CUDA device of this process, or of one worker, sorts; ``cpu``; ``auto``: CUDA
        where there is a device that will do. The store has the same bytes.
    device_memory
        Bytes (or "4GiB") of the CUDA device that the build may use; None: nearly all that is free.
    memory_limit
        Bytes (or "4GiB") of host memory for all processes of the build together.
    overwrite
        Replace an existing store.
    progress
        Who hears how far the build is.
    **options
        ``columns``, ``delimiter``, ``header``, ``weight_type``: see `open_source`.

    Raises
    ------
    InputError, UsageError, OutputExistsError, MemoryBudgetError
        Bad input or a call that cannot be carried out; nothing is written.
    DeviceError
        If ``cuda`` is asked for and there is no device that can be used.
    DiskFullError, OutputBusyError, DeviceBusyError
        Worth trying again; nothing is written.

    Examples
    --------
    >>> import ooc_graph as og
    >>> g = og.build("edges.txt", "edges.zarr")  # doctest: +SKIP
    """
    edges = open_source(source, format=format, directed=directed, weight=weight, **options)
    chosen = BuildOptions(rows=rows, shards=shards, overwrite=overwrite, compress=compress)
    graph, _ = build_with_report(
        edges,
        Path(out),
        chosen,
        client=client,
        device=device,
        device_memory=device_memory,
        memory_limit=memory_limit,
        progress=progress,
    )
    return graph


def build_with_report(
    source: EdgeSource,
    out: Path,
    options: BuildOptions,
    *,
    client: Client | None = None,
    device: str = AUTO,
    device_memory: str | int | None = None,
    memory_limit: str | int | None = None,
    progress: Progress | None = None,
) -> tuple[Graph, BuildReport]:
    """As `build`, from an opened source, with what the build did."""
    limits = CudaLimits.of(device_memory, None).require_cuda(device)
    options.require_filled(most_rows(source))
    place = place_for(client, parse_bytes(memory_limit), device, limits, progress)
    place.release()
    report = build_store(place, source, out, options, progress or NoProgress())
    write_run_facts(out, {"stages": report.stages, "edges": report.edges})
    return Graph.open(out), report


def write_run_facts(store: Path, facts: dict[str, Any]) -> None:
    """``NAME.run.json`` beside a store: what varies from run to run and is not hashed."""
    path = store.with_name(f"{store.name.removesuffix('.zarr')}.run.json")
    circumstances = {"host": host_facts(), "packages": package_versions()}
    text = json.dumps({**facts, **circumstances}, indent=1) + "\n"
    # The store stands: a disk that has just filled up is no reason to say that the build failed.
    with contextlib.suppress(OSError, DiskFullError):
        # Of a store that was replaced.
        path.unlink(missing_ok=True)
        with whole_file(path) as partial:
            partial.write_text(text)


@public
def open_graph(path: str | Path) -> Graph:
    """Open a built graph; takes well under a second at any size.

    Raises
    ------
    NotAStoreError, CorruptStoreError
    StoreReplacedError
        If it is replaced again and again meanwhile.
    """
    return Graph.open(path)


@public
def bfs(
    graph: Graph | str | Path,
    source: int,
    *,
    out: str | Path | None = None,
    client: Client | None = None,
    exchange: str = "auto",
    method: str = "rows",
    device: str = AUTO,
    arrays: str = "numpy",
    memory_limit: str | int | None = None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> BfsResult:
    """Breadth-first search: levels and canonical parents.

    Parameters
    ----------
    graph
        A built graph, or its path; or a graph in memory (`from_edges`).
    source
        Original id to begin at.
    out
        Folder of the result's store; None: the answer stays in memory.
    client
        Dask client whose workers search; None: this process.
    exchange
        ``auto``: one worker where the graph fits it, else ``scheduler``, the ranks of all
        workers; ``local``: all ranks in one process.
    method
        ``rows``; ``edges``: a list of edges, each once, in less memory and on one rank. The
        answer is the same.
    device
        ``cuda``, ``cpu``, or ``auto``: CUDA where every process that searches has a device that
        holds the graph, else the CPU. The answer is the same.
    arrays
        ``numpy``; ``cupy``: the answer stays on this process's CUDA device, as CuPy arrays.
    memory_limit
        Bytes of host memory for all processes of the search together.
    device_memory, host_memory
        Bytes (or "16GiB") of a CUDA device that a search may use, and of pinned host memory; None:
        15/16 of what the device has, and what the process may use. Rows that do not fit the device
        are in pinned host memory; with BFS, where that does not do, or is 0, in the store.
    overwrite
        Replace an existing result.
    progress
        Who hears of it.

    Raises
    ------
    UnknownVertexError
        If the graph has no vertex ``source``.
    DeviceError
        If ``cuda`` is asked for and there is no device that can be used.
    DeviceBusyError
        If others use it; the same call may succeed later.
    MemoryBudgetError, OutputExistsError, CorruptStoreError
        Nothing is written.
    StoreReplacedError
        If the graph was replaced by another since it was opened; open it again.

    References
    ----------
    S. Beamer, K. Asanović, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.
    """
    result = _search(
        graph,
        "bfs",
        source,
        out=out,
        client=client,
        exchange=exchange,
        method=method,
        device=device,
        arrays=arrays,
        memory_limit=memory_limit,
        device_memory=device_memory,
        host_memory=host_memory,
        overwrite=overwrite,
        progress=progress,
    )
    return cast(BfsResult, result)


@public
def sssp(
    graph: Graph | str | Path,
    source: int,
    *,
    out: str | Path | None = None,
    client: Client | None = None,
    exchange: str = "auto",
    method: str = "rows",
    device: str = AUTO,
    arrays: str = "numpy",
    memory_limit: str | int | None = None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> SsspResult:
    """Single-source shortest paths on weights of zero or more.

    Parameters and errors are those of `bfs`; besides, UsageError where the graph has no weights
    and NegativeWeightError where some are negative.

    Distances are float32 or float64 as the weights are, or exact int64.
    """
    result = _search(
        graph,
        "sssp",
        source,
        out=out,
        client=client,
        exchange=exchange,
        method=method,
        device=device,
        arrays=arrays,
        memory_limit=memory_limit,
        device_memory=device_memory,
        host_memory=host_memory,
        overwrite=overwrite,
        progress=progress,
    )
    return cast(SsspResult, result)


def _search(
    graph: Graph | str | Path,
    kernel: str,
    source: int,
    *,
    out: str | Path | None,
    client: Client | None,
    device: str,
    memory_limit: str | int | None,
    device_memory: str | int | None,
    host_memory: str | int | None,
    progress: Progress | None,
    **options: Any,
) -> TreeResult:
    limits = CudaLimits.of(device_memory, host_memory).require_cuda(device)
    return search(
        opened(graph, client),
        kernel,
        source,
        place=place_for(client, parse_bytes(memory_limit), device, limits, progress),
        progress=progress or NoProgress(),
        out=None if out is None else Path(out),
        **options,
    )


def opened(graph: Graph | str | Path, client: Client | None) -> Graph:
    """The graph, opened if it is given by its path."""
    if isinstance(graph, MemoryGraph) and client is not None:
        raise UsageError(
            "a graph in memory is searched in this process alone; leave client= out, or make a "
            "store of the edges with build()"
        )
    return graph if isinstance(graph, Graph) else Graph.open(graph)


@public
def components(
    graph: Graph | str | Path,
    *,
    out: str | Path | None = None,
    client: Client | None = None,
    exchange: str = "auto",
    device: str = AUTO,
    memory_limit: str | int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ComponentsResult:
    """Weakly connected components: the smallest original id in the component of each vertex.

    Arcs of directed graphs are taken as edges. Vertices without edges are components of their
    own. They are found on the CPU: ``cuda`` as ``device`` is refused. Parameters and errors are
    those of `bfs`, which has a source besides.

    References
    ----------
    M. Sutton, T. Ben-Nun, A. Barak, "Optimizing parallel graph connectivity computation via
    subgraph sampling", IPDPS 2018.
    """
    return find_components(
        opened(graph, client),
        place=place_for(client, parse_bytes(memory_limit), device, progress=progress),
        progress=progress or NoProgress(),
        out=None if out is None else Path(out),
        exchange=exchange,
        overwrite=overwrite,
    )
