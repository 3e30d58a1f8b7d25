"""Errors that leave public functions: this package's own, with what was raised as the cause."""

from __future__ import annotations

import asyncio
import errno
import gc
import pickle
import traceback
import weakref
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import numpy as np
import pytest
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

import ooc_graph as og
from ooc_graph import errors
from ooc_graph.boundary import for_command, own_errors, public
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
    (ValueError("embedded null byte"), UsageError),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), UsageError),
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
    assert type(caught.value).__name__ == kind.__name__
    assert isinstance(caught.value, kind)
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


BUILT_IN = [
    (errors.MemoryBudgetError("a"), MemoryError),
    (errors.OutputExistsError("a"), FileExistsError),
    (errors.NoStoreError("a"), FileNotFoundError),
    (errors.MissingFileError("no such file", path="x", advice="look"), FileNotFoundError),
    (errors.StorageError("a"), OSError),
    (errors.DiskFullError("a"), OSError),
    (errors.NetworkError("a"), ConnectionError),
    (errors.ClusterLostError("a"), TimeoutError),
    (errors.UsageError("a"), ValueError),
    (errors.InputError("a"), ValueError),
    (errors.UnknownVertexError("a"), KeyError),
    (errors.NegativeCycleError([1], -1), ValueError),
    (errors.MissingLibraryError("a"), ImportError),
]


@pytest.mark.parametrize(("error", "built_in"), BUILT_IN)
def test_errors_are_of_the_kinds_that_python_has(
    error: OocGraphError, built_in: type[Exception]
) -> None:
    @public
    def fail() -> None:
        raise error

    @public
    def call() -> None:
        fail()

    with pytest.raises(built_in) as caught:
        call()
    raised = caught.value
    assert isinstance(raised, type(error))
    assert (str(raised), raised.exit_code) == (str(error), error.exit_code)
    assert vars(raised) == vars(error)
    again = pickle.loads(pickle.dumps(raised))
    assert (type(again), str(again)) == (type(raised), str(raised))
    frames = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
    assert frames[-1] == "fail"
    assert raised.__context__ is None


def test_inside_the_package_the_system_alone_refuses_memory_and_files() -> None:
    for error, built_in in BUILT_IN[:8]:
        assert not isinstance(error, built_in)


def test_what_errors_hold_is_freed_with_them() -> None:
    """An error that somebody had caught keeps nothing of the frames that it left."""

    class Held:
        pass

    @public
    def fail() -> None:
        held = Held()
        alive.append(weakref.ref(held))
        raise MemoryBudgetError("a")

    alive: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        with suppress(MemoryError):
            fail()
        assert alive[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("option", "argument"),
    [
        ("--memory-limit '9XB': give bytes", "memory_limit='9XB': give bytes"),
        ("raise --memory-limit or add workers", "raise memory_limit= or add workers"),
        ("use --device cpu", "use device='cpu'"),
        ("build it with --rows both", "build it with rows='both'"),
        ("--shards 3: give a power of two", "shards=3: give a power of two"),
        ("--rows foo: choose hub", "rows='foo': choose hub"),
        ("give --overwrite to replace it", "give overwrite=True to replace it"),
        ("name them with --columns SOURCE,TARGET", "name them with source= and target="),
        ("a well--known x - --", "a well--known x - --"),
    ],
)
def test_messages_name_arguments_to_python_and_options_to_the_command(
    option: str, argument: str
) -> None:
    @public
    def fail() -> None:
        raise InputError("is wrong", path="--device cpu", advice=option)

    with pytest.raises(InputError) as caught:
        fail()
    assert str(caught.value) == f"--device cpu: is wrong ({argument})"
    with for_command(), pytest.raises(InputError) as caught:
        fail()
    assert str(caught.value) == f"--device cpu: is wrong ({option})"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: og.open_source("g.csv", delimeter=","),  # type: ignore[call-arg]
            r"open_source\(\) has no argument delimeter: did you mean delimiter\?",
        ),
        (
            lambda: og.bfs("g.zarr", 1, xyz=2),  # type: ignore[call-overload]
            r"bfs\(\) has no argument xyz: there are graph, source, ",
        ),
        (og.open, r"missing 1 required positional argument"),
    ],
)
def test_wrong_arguments(call: Any, said: str) -> None:
    for kind in (TypeError, UsageError):
        with pytest.raises(kind, match=said):
            call()


def test_a_type_error_inside_is_a_defect() -> None:
    @public
    def fail(x: int) -> int:
        return "a" + x  # type: ignore[operator,return-value]

    with pytest.raises(UnexpectedError):
        fail(1)
