"""The public function that frees what calls have left loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ooc_graph.boundary import public
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import client_meant, require_client

if TYPE_CHECKING:
    from distributed import Client


@public
def release(client: Client | Literal[False] | None = None) -> None:
    """Free the graphs that this process, and the workers of a client, keep between searches.

    The next search of a graph loads it again. Results stay as they are. To free one graph in this
    process, use ``with og.open(...)``.

    Parameters
    ----------
    client
        Dask client whose workers also release their graphs, unless they are searching; None: the
        current one if there is one; False: this process alone.

    Raises
    ------
    UsageError
        If ``client`` is no synchronous Dask client.
    ClusterLostError
        If its scheduler is gone.

    Examples
    --------
    >>> import ooc_graph as og
    >>> g = og.from_edges([0, 1], [1, 2])
    >>> og.bfs(g, 0).level.tolist()
    [0, 1, 2]
    >>> og.release()
    """
    engine_cache.release()
    meant = client_meant(client)
    if meant is not None:
        require_client(meant)
        # Imported here: a process without a cluster needs no Dask.
        from ooc_graph.exchange.cluster import Cluster  # noqa: PLC0415

        Cluster.of(meant).ask(engine_cache.release_idle)
