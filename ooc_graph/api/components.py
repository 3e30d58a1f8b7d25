"""The public function that finds connected components."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ooc_graph.answers.result import ComponentsResult
from ooc_graph.api.dispatch import search_one
from ooc_graph.boundary import public
from ooc_graph.shards.load import Graph
from ooc_graph.types import Arrays, DeviceName, Exchange, ProgressLike

if TYPE_CHECKING:
    from distributed import Client


@public
def components(
    graph: Graph | str | Path,
    *,
    out: str | Path | None = None,
    client: Client | Literal[False] | None = None,
    exchange: Exchange = "auto",
    device: DeviceName = "auto",
    arrays: Arrays = "numpy",
    memory_limit: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> ComponentsResult:
    """Weakly connected components: the smallest original id in the component of each vertex.

    Arcs of directed graphs count as edges. Each vertex without edges is a component of its own. The
    CPU finds the components: ``cuda`` as ``device`` is refused. Parameters and errors are those of
    `bfs`, without the sources.

    References
    ----------
    M. Sutton, T. Ben-Nun, A. Barak, "Optimizing parallel graph connectivity computation via
    subgraph sampling", IPDPS 2018.
    """
    return cast(ComponentsResult, search_one("components", **locals()))
