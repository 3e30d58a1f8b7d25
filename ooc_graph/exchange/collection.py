"""The value of a Dask collection, or an error in time: its tasks are Dask's own."""

from __future__ import annotations

from concurrent.futures import wait
from time import monotonic
from typing import Any

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.time_limits import patience_s
from ooc_graph.exchange.worker_states import describe
from ooc_graph.threads import CHECK_S


def compute(client: Any, collection: Any) -> Any:
    """Value of a Dask collection; for tasks that need one.

    ClusterLostError if for longer than the patience no worker could work, or one that has a part of
    the work, or perhaps the value, was silent or paused.
    """
    cluster = Cluster.of(client)
    states = cluster.look()
    working = [address for address, state in states.items() if state.can_work]
    future = client.compute(collection, workers=working if len(working) < len(states) else None)
    fetch = cluster.fetch(future)
    stalled_s: float | None = None
    while True:
        wait([fetch], CHECK_S)
        if fetch.cancelled() and not future.cancelled():
            # A request for several values was stopped, and this was one of them.
            fetch = cluster.fetch(future)
        elif fetch.done():
            return fetch.result()
        states = cluster.look()
        hindered = [address for address, state in states.items() if not state.can_work]
        if not hindered or not (future.done() or _has_work(cluster, hindered)):
            stalled_s = None
            continue
        stalled_s = stalled_s or monotonic()
        if monotonic() - stalled_s > patience_s():
            fetch.cancel()
            # Not cancelled: it may be somebody else's, who keeps the collection.
            future.release()
            which = describe(states[address] for address in hindered)
            raise ClusterLostError(f"a Dask collection could not be computed: {which}")


def _has_work(cluster: Cluster, workers: list[str]) -> bool:
    """Whether tasks wait at some workers, or the scheduler does not say."""
    try:
        return any(cluster.tasks_at(workers).values())
    except OSError:
        return True
