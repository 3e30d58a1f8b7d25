"""Dask DataFrames and Dask arrays as sources of edges: one unit per partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
from dask.base import tokenize
from distributed import default_client, get_worker, worker_client

from ooc_graph.edges.arrays import NO_INTEGERS, checked_block, weight_dtype_of
from ooc_graph.edges.interface import SourceDefaults, Unit, ranges, units_of
from ooc_graph.edges.options import ReadOptions, choose_columns
from ooc_graph.errors import ClusterLostError, InputError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.worker_states import describe
from ooc_graph.forked import is_parents
from ooc_graph.settings import patience_s
from ooc_graph.threads import CHECK_S
from ooc_graph.types import AnyArray, EdgeBlock


@dataclass(frozen=True, eq=False)
class DaskSource(SourceDefaults):
    """Edges from a Dask collection; see ``EdgeSource``.

    A unit is one partition, of which ``parts`` has a delayed object; ``positions`` are its columns
    source, target and perhaps weight. It is computed where it is read: on a Dask worker through its
    cluster, so that what a persisted collection holds there is used, else with the default client
    if there is one, else by the reading thread.
    """

    parts: tuple[Any, ...]
    positions: tuple[int, ...]
    directed: bool
    weight_dtype: np.dtype[Any] | None
    token: str
    edges: int | None = field(default=None, init=False)

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """One unit per partition, whatever its size."""
        del edges_per_unit
        return units_of(ranges(0, len(self.parts), 1))

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Compute the partition and yield its rows."""
        part = _computed(self.parts[unit.start])
        for start in range(0, len(part), block_edges):
            columns = [
                _column(part, at, slice(start, start + block_edges)) for at in self.positions
            ]
            yield checked_block(columns, self.weight_dtype, f"partition {unit.start}", start)

    def check_totals(self, tuples_read: int) -> None:
        """Refuse a collection without rows."""
        if tuples_read == 0:
            raise InputError("no edges in the Dask collection")

    def describe(self) -> dict[str, Any]:
        """Dask's name of the collection, its partitions and columns."""
        return {
            "format": "dask",
            "directed": self.directed,
            "partitions": len(self.parts),
            "columns": list(self.positions),
            "weight_type": self.weight_type,
            "token": self.token,
        }


def _computed(part: Any) -> Any:
    """Value of a delayed object, with the cluster that may hold what it is made from."""
    if _or_none(get_worker) is not None:
        with worker_client() as client:
            return compute(client, part)
    return part.compute() if _or_none(default_client) else part.compute(scheduler="synchronous")


def _or_none(find: Callable[[], Any]) -> Any:
    """What Dask finds, None if there is none, or none that works in this process."""
    try:
        found = find()
    except ValueError:
        return None
    return None if is_parents(found) else found


def _column(part: Any, position: int, rows: slice) -> AnyArray:
    """Rows of one column of a pandas or cuDF frame or of an array, in host memory."""
    column = part.iloc[rows, position] if hasattr(part, "iloc") else part[rows, position]
    values: AnyArray = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    return values


def open_dask_frame(frame: Any, options: ReadOptions) -> DaskSource:
    """A Dask DataFrame with columns source, target and perhaps weight."""
    names = [str(name) for name in frame.columns]
    chosen = choose_columns(options, names, len(names), "Dask DataFrame")
    ids = (chosen.source, chosen.target)
    for position in ids:
        if _plain(frame.dtypes.iloc[position]).kind not in "iu":
            raise InputError(
                f"column {names[position]!r} has dtype {frame.dtypes.iloc[position]}",
                advice=NO_INTEGERS,
            )
    dtype = None
    if chosen.weight is not None:
        given = _plain(frame.dtypes.iloc[chosen.weight])
        dtype = weight_dtype_of(given, options.weight_dtype)
    positions = ids if chosen.weight is None else (*ids, chosen.weight)
    parts = tuple(frame.to_delayed())
    return DaskSource(parts, positions, options.is_directed(), dtype, str(tokenize(frame)))


def _plain(dtype: Any) -> np.dtype[Any]:
    """NumPy dtype behind a pandas extension dtype, object if there is none."""
    plain = getattr(dtype, "numpy_dtype", dtype)
    return plain if isinstance(plain, np.dtype) else np.dtype(object)


def open_dask_array(array: Any, options: ReadOptions) -> DaskSource:
    """A Dask array of shape (m, 2) or (m, 3)."""
    if array.ndim != 2 or array.shape[1] not in {2, 3}:
        raise InputError(
            f"the Dask array has shape {array.shape}", advice="expected (m, 2) or (m, 3)"
        )
    if array.dtype.kind not in "iu":
        raise InputError(
            f"the Dask array has dtype {array.dtype}",
            advice="ids are integers; use a DataFrame for float weights",
        )
    whole = array.rechunk({1: array.shape[1]})
    weighted = array.shape[1] == 3 and not options.no_weight
    dtype = weight_dtype_of(array.dtype, options.weight_dtype) if weighted else None
    parts = tuple(whole.to_delayed()[:, 0])
    positions = (0, 1, 2) if weighted else (0, 1)
    return DaskSource(parts, positions, options.is_directed(), dtype, str(tokenize(array)))


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
