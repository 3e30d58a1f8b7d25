"""The public function for breadth-first search from one source, or from each of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from ooc_graph.answers.result import BfsResult
from ooc_graph.answers.several import Answers
from ooc_graph.api.dispatch import search_one
from ooc_graph.boundary import public
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Arrays, DeviceName, Exchange, IntArray, Method, ProgressLike

if TYPE_CHECKING:
    from distributed import Client


@overload
def bfs(
    graph: Graph | str | Path,
    source: int,
    *,
    cutoff: float | None = ...,
    targets: Any = ...,
    out: str | Path | None = ...,
    into: Mapping[str, AnyArray] | None = ...,
    client: Client | Literal[False] | None = ...,
    exchange: Exchange = ...,
    method: Method = ...,
    device: DeviceName = ...,
    arrays: Arrays = ...,
    memory_limit: str | int | None = ...,
    device_memory: str | int | None = ...,
    host_memory: str | int | None = ...,
    overwrite: bool = ...,
    progress: ProgressLike = ...,
) -> BfsResult: ...


@overload
def bfs(
    graph: Graph | str | Path, source: Sequence[int] | IntArray, **options: Any
) -> Answers[BfsResult]: ...


@overload
def bfs(
    graph: Graph | str | Path,
    source: None = ...,
    *,
    sources: Sequence[int] | IntArray,
    **options: Any,
) -> BfsResult: ...


@public  # type: ignore[misc]  # here alone all options are named
def bfs(
    graph: Graph | str | Path,
    source: int | Sequence[int] | IntArray | None = None,
    *,
    sources: Sequence[int] | IntArray | None = None,
    cutoff: float | None = None,
    targets: Any = None,
    out: str | Path | None = None,
    into: Mapping[str, AnyArray] | None = None,
    client: Client | Literal[False] | None = None,
    exchange: Exchange = "auto",
    method: Method = "rows",
    device: DeviceName = "auto",
    arrays: Arrays = "numpy",
    memory_limit: str | int | None = None,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> BfsResult | Answers[BfsResult]:
    """Breadth-first search: levels and canonical parents.

    Parameters
    ----------
    graph
        A built graph, or its path; or a graph in memory (`from_edges`).
    source
        Original id of the source. Or a list of several, each once, with ``out``: the answers are
        those of a call for each. (`multi_source_bfs` gives levels alone, a row for each source.)
    sources
        Instead of ``source``: original ids, each once, from which one search starts, as in networkx
        and cuGraph. Every vertex gets the path from its nearest source, which ``nearest`` of the
        result names; among equally near ones, from the smallest id. This takes as long as a search
        from each, and the answer is put together in memory, even if it is written.
    cutoff
        Vertices of a higher level are unreached; None: no limit.
    targets
        Original ids of vertices. The search may end when all of them are reached: vertices of a
        higher level than that of the last one are unreached. None: the search does not end early.
    out
        Folder of the result's store; None: see ``arrays``. With several sources, a folder of stores
        (``7.zarr``). If the call was stopped, the same call adds the missing ones.
    into
        Arrays for columns by name, such as ``{"parent": p, "level": l}``: NumPy, C-contiguous,
        (vertices,), of the column's type. They have the answer when the call returns, and do not
        count towards ``memory_limit``. Memory that has been used before saves the time that the
        system needs to provide new memory. A CUDA device writes directly to page-locked arrays
        (``cupyx.empty_pinned``).
    client
        Dask client whose workers search; None: the current one if there is one, otherwise this
        process; False: this process. Several sources are distributed to the workers if the graph
        fits each.
    exchange
        ``auto``: one worker if the graph fits it, otherwise ``scheduler``, the ranks of all
        workers.
    method
        ``rows``; or ``edges``: a list with each edge once, which needs less memory and has one
        rank. The answer is the same.
    device
        ``cuda``, ``cpu``, or ``auto``: CUDA if every process that searches has a device with memory
        for the graph, otherwise the CPU. The answer is the same.
    arrays
        ``numpy``; ``cupy``: the answer stays on this process's CUDA device, as CuPy arrays;
        ``dask``: it stays on the workers that find it until it is read.
    memory_limit
        Bytes of host memory for all processes of the search together.
    device_memory, host_memory
        Bytes (or "16GiB") of a CUDA device that a search may use, and of pinned host memory; None:
        15/16 of what the device has, and what the process may use. Rows that do not fit the device
        are in pinned host memory; if that is too small, or 0, in the store.
    overwrite
        Replace an existing result; with several sources, those of another graph or kernel.
    progress
        What shows the progress of the search: True (bars on a terminal, lines elsewhere, on
        standard error), a function that is called with a record (``stage``, ``done``, ``total``,
        ``unit``), the class ``tqdm``, a ``rich.progress.Progress``, or an object with ``stage()``
        and ``note()``; None: nothing.

    Returns
    -------
    BfsResult or Answers
        The answer; with several sources, a sequence that opens each answer when it is accessed.

    Raises
    ------
    UnknownVertexError, InputError
        If the graph has no vertex ``source``; if one of several is given twice, or none is given.
    DeviceError
        If ``cuda`` is requested and no device can be used.
    DeviceBusyError
        If others use the device; the same call may succeed later.
    MemoryBudgetError, OutputExistsError, CorruptStoreError
        Nothing is written.
    StoreReplacedError
        If the graph was replaced by another since it was opened; open it again.

    References
    ----------
    S. Beamer, K. Asanović, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.
    """
    return cast(BfsResult | Answers[BfsResult], search_one("bfs", **locals()))
