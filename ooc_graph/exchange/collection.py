"""The value of a Dask collection, or an error in time: its tasks are Dask's own."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Any

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster, answer_timeout_s, describe, patience_s
from ooc_graph.exchange.tasks import CHECK_S


def compute(client: Any, collection: Any) -> Any:
    """Value of a Dask collection; for tasks that need one.

    Raises
    ------
    ClusterLostError
        For longer than the patience no worker could work, or one that has a part of the work, or
        perhaps the value, was silent or paused.
    """
    cluster = Cluster.of(client)
    states = cluster.look()
    working = [address for address, state in states.items() if state.can_work]
    future = client.compute(collection, workers=working if len(working) < len(states) else None)
    stalled_s: float | None = None
    while True:
        cluster.wait([future], CHECK_S)
        if future.done():
            with suppress(TimeoutError):
                return future.result(timeout=answer_timeout_s())
        states = cluster.look()
        hindered = [address for address, state in states.items() if not state.can_work]
        if not hindered or not (future.done() or _has_work(cluster, hindered)):
            stalled_s = None
            continue
        stalled_s = stalled_s or monotonic()
        if monotonic() - stalled_s > patience_s():
            # Not cancelled: it may be somebody else's, who keeps the collection.
            future.release()
            named = describe(states[address] for address in hindered)
            raise ClusterLostError(f"a Dask collection could not be computed: {named}")


def _has_work(cluster: Cluster, workers: list[str]) -> bool:
    """Whether tasks wait at some workers, or the scheduler does not say."""
    try:
        return any(cluster.tasks_at(workers).values())
    except OSError:
        return True
