"""Answers that stay on the worker which found them, until they are read, or used there."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import dask
import numpy as np
import pytest
from dask.base import tokenize
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.late import LateColumns, late_columns
from ooc_graph.answers.narrow import Narrow
from ooc_graph.answers.unread import Unread
from ooc_graph.errors import ClusterLostError, InputError, UsageError, ValidationFailedError
from ooc_graph.exchange import left
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.model.request import Request
from ooc_graph.sinks import single
from tests.left_answers import (
    DEADLINE_S,
    KERNELS,
    built,
    cleared,
    lose,
    root_of,
    same,
    searched,
    searches_there,
    sent_bytes,
    unread,
    until,
    worker_of,
)
from tests.own_process import in_own_process
from tests.toy_ranks import start

ANSWERS = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with start(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return built(tmp_path_factory.mktemp("graph"))


@pytest.mark.parametrize("step", [0, 7, 3 << 40])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_values_are_those_of_a_process(
    kernel: str, step: int, client: Client, tmp_path: Path
) -> None:
    graph = built(tmp_path, step)
    right = searched(kernel, graph, False)
    found = searched(kernel, graph, client)
    apart = unread(found)
    lazy = {name: found.to_dask_array(name) for name in right.names}
    for name, array in lazy.items():
        assert array.dtype == right.read(name).dtype
        assert array.compute().tobytes() == right.read(name).tobytes()
    assert np.array_equal(found.to_dask_array().compute(), right.read(right.measure))
    assert found.unread is apart
    if kernel == "components":
        assert found.count == right.count
        assert found.unread is apart
    before = found.seconds["order"]
    same(found, right)
    assert found.unread is None
    assert found.seconds["order"] > before
    assert list(found.seconds) == list(right.seconds)
    # What was computed from the future is still that, and the columns are as before.
    assert lazy[right.names[-1]].compute().tobytes() == right.read(right.names[-1]).tobytes()
    again = found.to_dask_array().compute(scheduler="sync")
    assert again.tobytes() == right.read(right.measure).tobytes()


def test_nothing_travels_before_it_is_asked_for(client: Client, tmp_path: Path) -> None:
    graph = built(tmp_path, scale=15)
    searched("bfs", graph, client)
    before = sent_bytes(client)
    answer = searched("bfs", graph, client)
    assert answer.vertex.tolist() == list(range(graph.vertices))
    assert int(answer.to_dask_array("level").max().compute()) > 1
    (verdict,) = og.validate(graph, answer, client=client)
    assert verdict.ok
    narrow_bytes = unread(answer).described.nbytes
    assert narrow_bytes == 5 * graph.vertices
    assert sent_bytes(client) - before < narrow_bytes // 8
    assert verdict.reached == int(answer.reached.sum())
    assert answer.unread is None
    assert sent_bytes(client) - before >= narrow_bytes
    between = sent_bytes(client)
    assert len(answer.level) == len(answer.parent) == graph.vertices
    assert sent_bytes(client) == between


@pytest.mark.parametrize("kernel", KERNELS)
def test_answers_come_along_unless_asked(kernel: str, graph: og.Graph, client: Client) -> None:
    cleared(client)
    left_before = searched(kernel, graph, client)
    roots = () if kernel == "components" else (root_of(graph),)
    answer = getattr(og, kernel)(graph, *roots, client=client)
    assert answer.unread is None
    # It needs neither worker nor client any more; the one that was left stays where it is.
    until(lambda: len(searches_there(client)) == 1)
    assert left_before.unread is not None
    same(pickle.loads(pickle.dumps(answer)), searched(kernel, graph, False))


def test_what_cannot_stay_on_a_worker_is_refused(
    graph: og.Graph, client: Client, tmp_path: Path
) -> None:
    root = root_of(graph)
    with pytest.raises(UsageError, match="give client=, and leave out= out"):
        og.bfs(graph, root, client=False, arrays="dask")
    with pytest.raises(UsageError, match="give client=, and leave out= out"):
        og.bfs(graph, root, client=client, arrays="dask", out=tmp_path / "bfs.zarr")
    with pytest.raises(UsageError, match="leave arrays='dask' out"):
        og.bfs(graph, root, client=client, arrays="dask", into={})
    with pytest.raises(UsageError, match="choose numpy, cupy or dask"):
        og.components(graph, client=client, arrays="worker")
    assert not list(tmp_path.iterdir())


def test_a_deep_copy_keeps_the_answer(graph: og.Graph, client: Client) -> None:
    answer = searched("bfs", graph, client)
    copied = copy.deepcopy(answer)
    assert copied.unread is answer.unread
    del answer
    same(copied, searched("bfs", graph, False))


@pytest.mark.parametrize("first", ["read", "validated"])
def test_an_answer_that_dask_has_moved_is_found(first: str, graph: og.Graph) -> None:
    with start(2) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        address = worker_of(answer)
        client.retire_workers([address])
        until(lambda: address not in Cluster.of(client).look())
        if first == "validated":
            assert og.validate(graph, answer, client=client)[0].ok
            assert answer.unread is not None
            assert worker_of(answer) != address
        same(answer, searched("bfs", graph, False))


def test_passes_are_the_only_tasks(
    graph: og.Graph, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared(client)
    answers, sent = [searched("bfs", graph, client, row) for row in (3, 4)], list[Any]()
    until(lambda: len(searches_there(client)) == len(answers))
    keys, submit = set(searches_there(client)), client.submit

    def noted(function: Any, *given: Any, **options: Any) -> Any:
        sent.append(submit(function, *given, **options))
        return sent[-1]

    monkeypatch.setattr(client, "submit", noted)
    assert all(one.ok for one in og.validate(graph, answers, client=client))
    # A second task for an answer would keep its columns, as they are read, until all passes end.
    assert sent
    assert all("check-pass" in one.key for one in sent)
    sent.clear()
    until(lambda: set(searches_there(client)) == keys)


def test_a_read_changes_no_verdict(client: Client, tmp_path: Path, graph: og.Graph) -> None:
    ids = np.arange(graph.vertices)
    path = ids[:-1], ids[1:], np.ones(len(ids) - 1, np.float32)
    other = og.build(path, tmp_path / "other.zarr", rows="both", client=False)
    assert other.vertices == graph.vertices
    answer = searched("bfs", graph, client)
    with pytest.raises(ValidationFailedError) as unread_error:
        og.validate(other, answer, client=client)
    assert answer.unread is not None
    assert answer.level.max() > 0
    with pytest.raises(ValidationFailedError) as read_error:
        og.validate(other, answer, client=client)
    assert str(read_error.value) == str(unread_error.value)


def test_what_nobody_refers_to_is_freed(graph: og.Graph, client: Client) -> None:
    cleared(client)
    answer = searched("bfs", graph, client)
    array = answer.to_dask_array()
    assert len(searches_there(client)) == 1
    del answer
    assert int(array.max().compute()) > 0
    del array
    until(lambda: searches_there(client) == [])
    answer = searched("bfs", graph, client)
    og.validate(graph, answer, client=client)
    assert len(answer.level) == graph.vertices
    until(lambda: searches_there(client) == [])


def test_dask_knows_how_much_there_is(graph: og.Graph, client: Client) -> None:
    cleared(client)
    answer = searched("sssp", graph, client)
    ((future, _),) = unread(answer).there
    (nbytes,) = client.nbytes([future.key], summary=False).values()
    least = unread(answer).described.nbytes
    assert least <= nbytes < least + 1_000


def test_validation_finds_what_is_wrong_on_the_worker(graph: og.Graph, client: Client) -> None:
    answer = searched("bfs", graph, client)
    apart = unread(answer)
    ((future, address),) = apart.there
    spoilt = client.submit(spoil, future, workers=[address], pure=False)
    sizes = [apart.described.nbytes]
    kept = left.Left(Cluster.of(client), [(spoilt, address)], sizes, apart.kept.narrow)
    columns = late_columns(Unread(apart.described, apart.graph_sha256, apart.kept, kept))
    before = sent_bytes(client)
    wrong = replace(answer, columns=columns)
    with pytest.raises(ValidationFailedError, match="breaks rule 'level of parent'"):
        og.validate(graph, wrong, client=client)
    assert wrong.unread is not None
    # What a pass says is small, and so is this graph.
    assert sent_bytes(client) - before < 64 << 10


def spoil(written: Any) -> Any:
    narrow = written.columns.narrow
    columns = dict(narrow._narrow)
    level = columns["level"] = columns["level"].copy()
    level[np.flatnonzero(level > 0)[3]] += 5
    return replace(written, columns=late_columns(Narrow(columns, narrow.dtypes, narrow.ids.first)))


def test_validation_takes_answers_from_everywhere(
    graph: og.Graph, client: Client, tmp_path: Path
) -> None:
    apart = [searched(kernel, graph, client) for kernel in KERNELS]
    stored = tmp_path / "bfs.zarr"
    og.bfs(graph, root_of(graph), out=stored, client=False)
    answers = [*apart, stored, searched("bfs", graph, False), *apart]
    assert all(one.ok for one in og.validate(graph, answers, client=client))
    assert all(one.unread is not None for one in apart[-1:])
    assert all(one.ok for one in og.validate(graph, answers, client=False))
    other = built(tmp_path, 7)
    with pytest.raises(InputError, match="another graph"):
        og.validate(other, searched("bfs", graph, client), client=client)


def used(answer: Any) -> tuple[bool, bytes, bytes]:
    was_unread = answer.unread is not None
    return was_unread, answer.level.tobytes(), answer.parent.tobytes()


@pytest.mark.parametrize("through", ["submit", "delayed", "scatter", "submit and wait"])
def test_tasks_read_what_they_are_given(through: str, graph: og.Graph, client: Client) -> None:
    answer, right = searched("bfs", graph, client), searched("bfs", graph, False)
    # The worker has one thread, which the task that reads has.
    where = {"workers": [worker_of(answer)]}
    found: Any
    if through == "submit":
        found = client.submit(used, answer, pure=True, **where).result(DEADLINE_S)
    elif through == "submit and wait":
        found = client.submit(used, answer, pure=False, **where).result(DEADLINE_S)
    elif through == "delayed":
        found = dask.delayed(used)(answer).compute()
    else:
        scattered = client.scatter(answer)
        found = client.submit(used, scattered, pure=False).result(DEADLINE_S)
    assert found == (True, right.level.tobytes(), right.parent.tobytes())
    assert answer.unread is not None


def test_tokens_and_copies_move_nothing(
    graph: og.Graph, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, other = searched("bfs", graph, client), searched("bfs", graph, client)
    right = searched("bfs", graph, False)
    monkeypatch.setattr(Cluster, "fetch", lambda *_: pytest.fail("columns were fetched"))
    assert tokenize(answer) == tokenize(answer) != tokenize(other)
    copied = pickle.loads(pickle.dumps(answer))

    async def on_the_loop() -> tuple[str, bytes]:
        return tokenize(answer), pickle.dumps(answer)

    token, _ = client.sync(on_the_loop, callback_timeout=DEADLINE_S)
    assert token == tokenize(answer)
    monkeypatch.undo()
    same(copied, right)
    assert answer.unread is not None
    same(answer, right)
    # It has its values now.
    same(pickle.loads(pickle.dumps(answer)), right)


def test_who_pickles_does_not_wait_for_who_reads(
    graph: og.Graph, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, right = searched("bfs", graph, client), searched("bfs", graph, False)
    go, begun, fetch = threading.Event(), threading.Event(), left.Left.fetch

    def slowly(self: Any) -> Any:
        begun.set()
        assert go.wait(DEADLINE_S)
        return fetch(self)

    monkeypatch.setattr(left.Left, "fetch", slowly)
    reader = threading.Thread(target=lambda: answer.level)
    reader.start()
    assert begun.wait(DEADLINE_S)

    async def on_the_loop() -> bytes:
        return pickle.dumps(answer)

    client.sync(on_the_loop, callback_timeout=DEADLINE_S)
    go.set()
    reader.join(DEADLINE_S)
    same(answer, right)


def test_a_copy_whose_original_is_gone_says_so(graph: og.Graph, client: Client) -> None:
    answer = searched("bfs", graph, client)
    sent = pickle.dumps(answer)
    del answer
    until(lambda: searches_there(client) == [])
    with pytest.raises(ClusterLostError, match="where it is no longer: search again"):
        _ = pickle.loads(sent).level


def test_reading_on_the_event_loop_is_refused(
    graph: og.Graph, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = searched("bfs", graph, client)

    monkeypatch.setattr(Cluster.of(client), "_looked_s", float("-inf"))

    async def on_the_loop() -> Any:
        return answer.level

    with pytest.raises(UsageError, match="read it in another thread"):
        client.sync(on_the_loop, callback_timeout=DEADLINE_S)
    same(answer, searched("bfs", graph, False))


def test_an_interrupted_read_goes_on(
    graph: og.Graph, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked = searched("bfs", graph, client), list[Any]()
    fetch = Cluster.fetch

    def noted(self: Cluster, *given: Any) -> Any:
        asked.append(given)
        return fetch(self, *given)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "fetch", noted)
    monkeypatch.setattr(left, "wait", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _ = answer.level
        assert answer.unread is not None
    monkeypatch.setattr(left, "wait", wait)
    same(answer, searched("bfs", graph, False))
    assert len(asked) == 1


def test_answers_beyond_what_is_reserved_come_home(graph: og.Graph, client: Client) -> None:
    cleared(client)
    answers = [searched("bfs", graph, client, row) for row in range(6)]
    stay = [one for one in answers if one.unread is not None]
    each = unread(answers[-1]).described.nbytes
    spare_bytes = single.spare_bytes(graph, Request("bfs", answer_bytes=24 * graph.vertices))
    assert 2 * each <= spare_bytes < 3 * each
    assert stay == answers[-3:]
    until(lambda: len(searches_there(client)) == 3)
    for row, answer in enumerate(answers):
        same(answer, searched("bfs", graph, False, row))


def test_two_clients_have_their_own(graph: og.Graph, cluster: LocalCluster, client: Client) -> None:
    right = searched("bfs", graph, False)
    with Client(cluster) as another:
        mine, theirs = searched("bfs", graph, client), searched("bfs", graph, another)
        read = searched("sssp", graph, another)
        same(read, searched("sssp", graph, False))
        # One client's answer is sent to another's worker.
        assert og.validate(graph, searched("bfs", graph, another), client=client)[0].ok
        assert og.validate(graph, mine, client=another)[0].ok
    same(mine, right)
    same(read, searched("sssp", graph, False))
    with pytest.raises(ClusterLostError, match=r"worker tcp://.*whose client is closed: sea"):
        _ = theirs.level
    with pytest.raises(ClusterLostError, match="client is closed"):
        og.validate(graph, theirs, client=client)
    with pytest.raises(ClusterLostError, match="client is closed"):
        theirs.to_dask_array("parent")


@pytest.mark.parametrize("first", [pytest.param("read", marks=pytest.mark.slow), "validated"])
def test_a_lost_worker_is_an_error_and_no_wait(first: str, graph: og.Graph) -> None:
    with start(2) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        address = worker_of(answer)
        lose(answer, address, graph, client, first, called="worker")
        # Others find it again; what cannot be brought is in nobody's way.
        for kernel in KERNELS:
            same(searched(kernel, graph, client), searched(kernel, graph, False))


def test_a_worker_lost_while_it_validates(graph: og.Graph) -> None:
    with start(1) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        address = worker_of(answer)
        # Its thread is busy, so that the pass does not begin before it is lost.
        busy = client.submit(sleep, DEADLINE_S * 10, workers=[address], pure=False)
        until(lambda: busy.key in client.processing()[address])
        pid = client.run(os.getpid, workers=[address])[address]
        killer = threading.Timer(2, os.kill, (pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(ClusterLostError, match="search again"):
            og.validate(graph, answer, client=client)
        killer.join()


def test_a_frozen_worker_is_waited_for_no_longer_than_the_patience(graph: og.Graph) -> None:
    short = {"ooc-graph.patience": "2s", "ooc-graph.answer-timeout": "1s"}
    with start(2) as cluster, Client(cluster) as client, dask.config.set(short):
        answer = searched("bfs", graph, client)
        address = worker_of(answer)
        pid = client.run(os.getpid, workers=[address])[address]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ClusterLostError, match=f"{address}, which has not answered.*again"):
                _ = answer.level
        finally:
            os.kill(pid, signal.SIGCONT)
        # It had not lost anything.
        until(lambda: Cluster.of(client).look()[address].can_work)
        same(answer, searched("bfs", graph, False))


def test_answers_leave_no_threads_and_files_open(graph: og.Graph) -> None:
    before, after = in_own_process(opened, str(graph.path), root_of(graph))
    # Dask keeps a few connections for the next request.
    assert all(now - once < ANSWERS // 4 for once, now in zip(before, after, strict=True))


def opened(path: str, root: int) -> list[tuple[int, int]]:
    """Open files and threads after a few answers, and after many more."""
    counts = []
    inside = {"processes": False, "protocol": "tcp"}
    with start(1, **inside) as cluster, Client(cluster) as client:
        for answers in (5, ANSWERS):
            for _ in range(answers):
                answer = og.bfs(path, root, client=client, arrays="dask")
                tokenize(answer)
                answer.to_dask_array().compute()
                assert answer.level.max() > 0
            counts.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
    return counts


def test_columns_into_arrays_are_read_at_once(graph: og.Graph, client: Client) -> None:
    into = {"level": np.empty(graph.vertices, np.int32)}
    answer = og.bfs(graph, root_of(graph), client=client, into=into)
    assert answer.level is into["level"]
    assert isinstance(answer.columns, LateColumns)
    same(answer, searched("bfs", graph, False))
