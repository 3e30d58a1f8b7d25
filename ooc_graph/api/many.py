"""The Python API for many sources at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.matrix import LevelsResult, PairsResult
from ooc_graph.answers.reductions import BINS, Bins
from ooc_graph.api.graphs import located
from ooc_graph.api.vertices import positions_of
from ooc_graph.boundary import public
from ooc_graph.search.many import search_many
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, DeviceName, ProgressLike, Reduction

if TYPE_CHECKING:
    from distributed import Client


@public
def johnson(
    graph: Graph | str | Path,
    sources: Any = None,
    *,
    targets: Any = None,
    cutoff: float | None = None,
    reduce: Reduction | None = None,
    bins: int = BINS,
    bin_width: float | None = None,
    parents: bool = False,
    out: str | Path | None = None,
    into: AnyArray | None = None,
    client: Client | Literal[False] | None = None,
    device: DeviceName = "auto",
    memory_limit: str | int | None = None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> PairsResult:
    """Shortest distances from all vertices, or from some, on weights of any sign.

    Johnson's algorithm: if weights are negative, Bellman-Ford from an added vertex finds potentials
    that make them >= 0. Then sources are searched in batches, with one read of an arc for all
    sources of a batch. Integers are exact. Without negative weights each row has the bits of
    `sssp`. With them, rounding of the potentials makes floats inexact
    (docs/explanation/many_sources.md).

    Parameters
    ----------
    graph
        A built graph with weights, or its path; or a graph in memory (`from_edges`).
    sources
        Original ids, each once; None: all vertices.
    targets
        Original ids of the vertices to which distances are wanted, each once; None: all vertices.
    cutoff
        Vertices farther away than this count as unreached.
    reduce
        Instead of distances, one of these for each source, over the targets that it reaches:
        ``eccentricity`` (the largest distance, 0 if it reaches none), ``sum`` (of distances),
        ``closeness`` (of Wasserman and Faust, along the arcs' direction) or ``histogram`` (how many
        targets are how far away).
    bins, bin_width
        For a histogram: how many bins, and how wide. Bin i counts distances from ``i * bin_width``
        to below ``(i + 1) * bin_width``. The last bin also counts all beyond, and the first one
        those below 0. Bins of integer distances have width 1 by default.
    parents
        Whether parents are wanted, too. They are those of `sssp` if no weight is negative, and form
        trees in any case. With a ``cutoff`` they are those of the tree without it, so with negative
        weights a parent may itself count as unreached.
    out
        Folder of the result's store, written batch by batch. If the call was stopped, the same call
        continues where it was. None: the answer stays in memory.
    into
        Array to which the distances are written, (sources, targets), C-contiguous, of their type;
        it is ``distance`` of the result, and does not count towards ``memory_limit``. Memory that
        has been used before saves the time that the system needs to provide new memory. A CUDA
        device writes directly to page-locked memory (``cupyx.empty_pinned``). After an error, the
        array has what had been found. None: new memory.
    client
        Dask client to whose workers the sources are distributed; None: the current one if there is
        one, otherwise this process; False: this process.
    device
        ``cpu``, ``cuda`` or ``auto``: a CUDA device if there is a suitable one. If batches do not
        fit it, ``cuda`` searches one by one, with rows in pinned host memory, or in the last resort
        with arcs in the store, which supports float32 weights of 0 or more.
    memory_limit
        Bytes of host memory for all processes of the search together.
    device_memory, host_memory
        Bytes (or "16GiB") of a CUDA device that the search may use, and of host memory that may be
        pinned for it; None: what the device has, and what the process may use. What does not fit
        continues in fewer batches at once, then one by one, as above. If ``host_memory`` is 0,
        neither rows nor answers are pinned, and there are no batches except for reductions that the
        device makes (not for sums and closeness of float64, nor histograms).
    overwrite
        Replace an existing result.
    progress
        What shows the progress of the searches; see `bfs`.

    Returns
    -------
    PairsResult
        ``distance`` (sources, targets), ``source`` and ``vertex``, and ``parent`` if requested. For
        a reduction ``read("reached")``, how many targets each source reaches, int64 (sources,), and
        ``read(reduce)``, (sources,), or (sources, bins) for a histogram.

    Raises
    ------
    NegativeCycleError
        If a cycle has a negative weight; the error has its vertices and exact weight.
    UnknownVertexError, InputError
        If a source or target is unknown or given twice, none is given, or sums of the weights might
        overflow.
    UsageError
        If the graph has no weights, or an option cannot be carried out.
    MemoryBudgetError, OutputExistsError, CorruptStoreError
        Nothing is written.
    DiskFullError
        If the distances do not fit the disk; nothing is written.
    DeviceError, DeviceBusyError
        If CUDA was requested, and is missing or used by others.

    References
    ----------
    D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", J. ACM 24 (1977).

    Examples
    --------
    >>> import ooc_graph as og
    >>> g = og.from_edges([0, 1, 0], [1, 2, 2], [3, -2, 4], directed=True)
    >>> og.johnson(g).distance[0].tolist()
    [0, 3, 1]
    """
    return _found(**locals())


@public
def shortest_paths(graph: Graph | str | Path, sources: Any, **options: Any) -> PairsResult:
    """Shortest distances from some vertices: `johnson`, except that sources are required.

    Parameters
    ----------
    graph, sources, **options
        As for `johnson`.
    """
    return johnson(graph, sources, **options)


@public
def multi_source_bfs(
    graph: Graph | str | Path,
    sources: Any = None,
    *,
    targets: Any = None,
    cutoff: float | None = None,
    reduce: Reduction | None = None,
    bins: int = BINS,
    bin_width: int | None = None,
    out: str | Path | None = None,
    into: AnyArray | None = None,
    client: Client | Literal[False] | None = None,
    device: DeviceName = "auto",
    memory_limit: str | int | None = None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> LevelsResult:
    """Levels from all vertices, or from some, by searches that share each look at an arc.

    A BFS in which every vertex has a bit for each of 256 sources [1]_. Reductions count levels
    while they are found, without a matrix. Weights do not matter.

    Parameters
    ----------
    graph
        A built graph, or its path; or a graph in memory (`from_edges`).
    sources, targets, cutoff, reduce, bins, bin_width
        As for `johnson`, with levels instead of distances.
    out, into, client, memory_limit, device_memory, host_memory, overwrite, progress
        As for `johnson`; levels are int32.
    device
        ``cpu``, ``cuda`` or ``auto``: a CUDA device if there is one and batches fit it, otherwise
        the CPU. The bytes are the same.

    Returns
    -------
    LevelsResult
        As for `johnson`, with ``level``, int32, instead of ``distance``.

    Raises
    ------
    UnknownVertexError, InputError
        If a source or target is unknown or given twice, or none is given.
    UsageError
        If an option cannot be carried out.
    MemoryBudgetError, OutputExistsError, CorruptStoreError, DiskFullError
        Nothing is written.
    DeviceError, DeviceBusyError
        If CUDA was requested, and is missing or used by others.

    References
    ----------
    .. [1] M. Then et al., "The More the Merrier: Efficient Multi-Source Graph Traversal",
       PVLDB 8 (2014).

    Examples
    --------
    >>> import ooc_graph as og
    >>> g = og.from_edges([0, 1, 2], [1, 2, 3])
    >>> og.multi_source_bfs(g, [0, 2]).level.tolist()
    [[0, 1, 2, 3], [2, 1, 0, 1]]
    >>> og.multi_source_bfs(g, reduce="eccentricity").read("eccentricity").tolist()
    [3, 2, 2, 3]
    """
    return cast(LevelsResult, _found(hops=True, **locals()))


def _found(
    *,
    sources: Any,
    targets: Any,
    cutoff: float | None,
    reduce: str | None,
    bins: int,
    bin_width: float | None,
    parents: bool = False,
    hops: bool = False,
    into: AnyArray | None,
    overwrite: bool,
    **where: Any,
) -> PairsResult:
    asked = Asked(None, cutoff, reduce, parents, Bins(bins, bin_width), hops, into is not None)
    graph, options = located(**where)
    chosen = np.arange(graph.vertices) if sources is None else positions_of(graph, sources)
    aimed = None if targets is None else positions_of(graph, targets, "targets")
    asked = replace(asked, targets=aimed)
    return search_many(graph, chosen, asked, into=into, overwrite=overwrite, **options)
