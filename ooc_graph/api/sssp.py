"""The public function for shortest paths from one source, or from each of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from ooc_graph.answers.result import SsspResult
from ooc_graph.answers.several import Answers
from ooc_graph.api.dispatch import search_one
from ooc_graph.boundary import public
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Arrays, DeviceName, Exchange, IntArray, Method, ProgressLike

if TYPE_CHECKING:
    from distributed import Client


@overload
def sssp(
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
) -> SsspResult: ...


@overload
def sssp(
    graph: Graph | str | Path, source: Sequence[int] | IntArray, **options: Any
) -> Answers[SsspResult]: ...


@overload
def sssp(
    graph: Graph | str | Path,
    source: None = ...,
    *,
    sources: Sequence[int] | IntArray,
    **options: Any,
) -> SsspResult: ...


@public  # type: ignore[misc]  # here alone all options are named
def sssp(
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
) -> SsspResult | Answers[SsspResult]:
    """Single-source shortest paths on weights of zero or more.

    Parameters and errors are those of `bfs`. In addition, UsageError is raised if the graph has no
    weights, and NegativeWeightError if some are negative.

    ``cutoff`` is the largest distance that counts as reached, as in networkx. With ``targets``,
    vertices that are farther than the last one of them are unreached.

    Distances are float32 or float64 as the weights are, or exact int64.
    """
    return cast(SsspResult | Answers[SsspResult], search_one("sssp", **locals()))
