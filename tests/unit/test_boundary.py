"""Errors that leave public functions: this package's own, with what was raised as the cause."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import numpy as np
import pytest
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

import ooc_graph as og
from ooc_graph.boundary import own_errors, public
from ooc_graph.errors import (
    ClusterLostError,
    DiskFullError,
    InputError,
    MemoryBudgetError,
    OocGraphError,
    StorageError,
    UnexpectedError,
    UsageError,
)
from ooc_graph.layout.whole_file import disk_full_reported

LOST = [
    CommClosedError("in <TCP>: Stream is closed"),
    ClosedClientError("Client is closed. Can't send update-graph message."),
    CancelledError("task"),
    distributed.CancelledError("task"),
    distributed.KilledWorker("task", SimpleNamespace(address="tcp://x:1"), 3),
    RuntimeError("IOLoop is closed"),
    RuntimeError("Event loop is closed"),
    ConnectionRefusedError("refused"),
    TimeoutError(),
]
OTHERS: list[tuple[Exception, type[OocGraphError]]] = [
    (OSError(errno.ENOSPC, "No space left on device", "/x/y"), DiskFullError),
    (OSError(errno.EIO, "Input/output error", "/x/y"), StorageError),
    (PermissionError(errno.EACCES, "Permission denied", "/x/y"), StorageError),
    (OSError(errno.EMFILE, "Too many open files", "/x/y"), UsageError),
    (MemoryError("Unable to allocate"), MemoryBudgetError),
    (RuntimeError("can't start new thread"), MemoryBudgetError),
    (RuntimeError("a fault"), UnexpectedError),
    (AssertionError(), UnexpectedError),
]


@pytest.mark.parametrize(("error", "kind"), [*((e, ClusterLostError) for e in LOST), *OTHERS])
def test_every_error_becomes_one_of_the_package(error: Exception, kind: type[Exception]) -> None:
    @public
    def fail() -> None:
        raise error

    with pytest.raises(OocGraphError) as caught:
        fail()
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_connections_have_no_file(tmp_path: Path) -> None:
    """While an output is written, too: a lost worker stays one."""
    with pytest.raises(ClusterLostError), own_errors(), disk_full_reported(tmp_path / "g.zarr"):
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


@pytest.mark.parametrize("error", [InputError("bad line", path="x", line=3), ClusterLostError("a")])
def test_errors_of_the_package_stay_as_they_are(error: OocGraphError) -> None:
    with pytest.raises(type(error)) as caught, own_errors():
        raise error
    assert caught.value is error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_a_process_or_a_task_goes_through(kind: type[BaseException]) -> None:
    with pytest.raises(kind), own_errors():
        raise kind


def test_others_may_be_named() -> None:
    with pytest.raises(BrokenPipeError), own_errors(BrokenPipeError):
        raise BrokenPipeError


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.build((np.arange(9), np.arange(1, 10)), tmp_path / "g.zarr")


@pytest.mark.parametrize(
    "call",
    [
        lambda graph, client: og.bfs(graph, 1, client=client),
        lambda graph, client: og.components(graph, client=client),
        lambda graph, client: og.multi_source_bfs(graph, [1], client=client),
        lambda graph, client: og.build(
            (np.arange(3), np.arange(3)), graph.path.with_name("h.zarr"), client=client
        ),
    ],
)
def test_what_is_no_client_is_refused(graph: og.Graph, call: Any) -> None:
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        for wrong in ("tcp://192.0.2.1:8786", cluster, 3):
            with pytest.raises(
                og.errors.UsageError, match=r"give a dask\.distributed\.Client, not"
            ):
                call(graph, wrong)
        client.close()
        with pytest.raises(ClusterLostError, match="closed"):
            call(graph, client)
    assert not graph.path.with_name("h.zarr").exists()
