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

    Johnson's algorithm: where weights are negative, potentials by Bellman-Ford from an added
    vertex make them >= 0; then sources are searched from by batches, one read of an arc for all
    sources of a batch. Integers are exact. Without negative weights each row has the bits of
    `sssp`; with them floats are wrong by what rounding makes of the potentials
    (docs/explanation/many_sources.md).

    Parameters
    ----------
    graph
        A built graph with weights, or its path; or a graph in memory (`from_edges`).
    sources
        Original ids, each once; None: all vertices.
    targets
        Original ids that distances are wanted to, each once; None: all vertices.
    cutoff
        Vertices farther away than this count as unreached.
    reduce
        Instead of distances, for each source and over the targets it reaches:
        ``eccentricity`` (the largest distance, 0 if it reaches none), ``sum`` (of distances),
        ``closeness`` (of Wasserman and Faust, along the arcs' direction) or ``histogram``
        (how many targets are how far away).
    bins, bin_width
        Of a histogram: how many bins, and how wide. Bin i counts distances from
        ``i * bin_width`` on, below ``(i + 1) * bin_width``, the last one all beyond, too, and the
        first one those below 0. Integer distances have bins of 1 unless said otherwise.
    parents
        Whether parents are wanted, too. They are those of `sssp` where no weight is negative,
        and form trees in any case; with a ``cutoff`` those of the tree without it, so that where
        weights are negative a parent may count as unreached itself.
    out
        Folder of the result's store, written batch by batch; a call that was stopped
        continues where it was when it is made again. None: the answer stays in memory.
    into
        Array that the distances are written to, (sources, targets), C-contiguous, of their type,
        which the result has as ``distance``; it does not count with ``memory_limit``. Memory that
        has been used before saves the time in which new memory is given, and page-locked memory
        (``cupyx.empty_pinned``) is written by a CUDA device itself. After an error, whatever had
        been found is there. None: new memory.
    client
        Dask client, over whose workers the sources are spread; None: the current one, if there is
        one, else this process; False: this process.
    device
        ``cpu``, ``cuda`` or ``auto``: a CUDA device where there is one that will do. Where batches
        do not fit it, ``cuda`` searches one by one, with rows in pinned host memory, or at last
        with arcs in the store, which takes float32 weights of 0 or more.
    memory_limit
        Bytes of host memory for all processes of the search together.
    device_memory, host_memory
        Bytes (or "16GiB") of a CUDA device that the search may use, and of host memory that may be
        pinned for it; None: what the device has, and what the process may use. What does not fit
        continues in fewer batches at once, then one by one, as above. With 0 as ``host_memory``
        neither rows nor answers are pinned, and there are no batches except for reductions that
        the device makes (not for sums and closeness of float64, nor histograms).
    overwrite
        Replace an existing result.
    progress
        What shows how far the searches are.

    Returns
    -------
    PairsResult
        ``distance`` (sources, targets), ``source`` and ``vertex``, and ``parent`` where it is asked
        for. Of a reduction ``read("reached")``, how many targets each source reaches, int64
        (sources,), and ``read(reduce)``, (sources,), or (sources, bins) of a histogram.

    Raises
    ------
    NegativeCycleError
        If a cycle has a negative weight; the error holds its vertices and exact weight.
    UnknownVertexError, InputError
        If a source or target is unknown or given twice, none is given, or sums of the weights
        might overflow.
    UsageError
        If the graph has no weights, or an option cannot be carried out.
    MemoryBudgetError, OutputExistsError, CorruptStoreError
        Nothing is written.
    DiskFullError
        If the distances do not fit the disk; nothing is written.
    DeviceError, DeviceBusyError
        If CUDA was asked for, and is not there or others use it.

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
    """Shortest distances from some vertices: `johnson` with the sources that must be given.

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

    BFS in which every vertex has a bit for each of 256 sources [1]_. Reductions count levels while
    they are found, without a matrix. Weights do not matter.

    Parameters
    ----------
    graph
        A built graph, or its path; or a graph in memory (`from_edges`).
    sources, targets, cutoff, reduce, bins, bin_width
        As for `johnson`, with levels for distances.
    out, into, client, memory_limit, device_memory, host_memory, overwrite, progress
        As for `johnson`; levels are int32.
    device
        ``cpu``, ``cuda`` or ``auto``: a CUDA device where there is one and batches fit it, else the
        CPU. The bytes are the same.

    Returns
    -------
    LevelsResult
        ``level`` for ``distance``, int32; all else as for `johnson`.

    Raises
    ------
    UnknownVertexError, InputError
        If a source or target is unknown or given twice, or none is given.
    UsageError
        If an option cannot be carried out.
    MemoryBudgetError, OutputExistsError, CorruptStoreError, DiskFullError
        Nothing is written.
    DeviceError, DeviceBusyError
        If CUDA was asked for, and is not there or others use it.

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
