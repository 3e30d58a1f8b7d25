"""Answers that are left on workers, as their tests make and look at them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from dask.base import tokenize
from distributed import Client

import ooc_graph as og
from ooc_graph.answers.unread import Unread
from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster

DEADLINE_S = 60
KERNELS = "bfs", "sssp", "components"


def built(folder: Path, step: int = 0, scale: int = 9, shards: int | None = None) -> og.Graph:
    """Ids have gaps unless the step is 0; those of large steps take 8 bytes."""
    source: Any = og.Kronecker(scale)
    if step:
        u, v, w = source.block(0, 8 << scale)
        source = step * u + 5, step * v + 5, w
    path = folder / f"{step}-{scale}.zarr"
    return og.build(source, path, rows="both", shards=shards, client=False)


def root_of(graph: og.Graph, row: int = 3) -> int:
    return int(graph.original_of()[row])


def searched(
    kernel: str, graph: og.Graph, client: Client | bool, row: int = 3, exchange: str = "auto"
) -> Any:
    roots = () if kernel == "components" else (root_of(graph, row),)
    arrays = "numpy" if client is False else "dask"
    return getattr(og, kernel)(graph, *roots, client=client, arrays=arrays, exchange=exchange)


def unread(answer: Any) -> Unread:
    found = answer.unread
    assert isinstance(found, Unread)
    return found


def worker_of(answer: Any) -> str:
    """The only worker that has it."""
    ((_, address),) = unread(answer).there
    return address


def same(answer: Any, right: Any) -> None:
    for name in right.names[::-1]:
        assert answer.read(name).dtype == right.read(name).dtype
        assert answer.read(name).tobytes() == right.read(name).tobytes()


def sent_bytes(client: Client) -> int:
    """What all workers have sent of what they have, to whomever."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def searches_there(client: Client) -> list[str]:
    every = client.run(lambda dask_worker: [str(key) for key in dask_worker.data])
    return [key for keys in every.values() for key in keys if key.startswith("ooc-graph-")]


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = monotonic() + DEADLINE_S
    while not is_so():
        assert monotonic() < deadline_s
        sleep(0.02)


def cleared(client: Client) -> None:
    """Wait until nothing of earlier tests is there; errors that they expected are in cycles."""
    gc.collect()
    until(lambda: searches_there(client) == [])


def lose(
    answer: Any, address: str, graph: og.Graph, client: Client, first: str, called: str
) -> None:
    """Kill a worker that has an answer, or part of it; what is done ``first`` is an error, soon."""
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    begun_s = monotonic()
    if first == "validated":
        with pytest.raises(ClusterLostError, match="search again"):
            og.validate(graph, answer, client=client)
    with pytest.raises(ClusterLostError, match=f"{called} {address}, .*: search again"):
        _ = answer.level
    until(lambda: address not in Cluster.of(client).look())
    with pytest.raises(ClusterLostError, match=f"{address}, which left the cluster: sea"):
        _ = answer.parent
    assert monotonic() - begun_s < DEADLINE_S
    assert tokenize(answer) == tokenize(answer)
    assert answer.vertex[1] == 1
