"""Answers that are left on workers, as their tests make and look at them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from distributed import Client

import ooc_graph as og
from ooc_graph.answers.unread import Unread

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
