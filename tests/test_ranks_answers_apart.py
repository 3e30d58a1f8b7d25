"""Answers of ranks, whose parts stay on the workers until they are read, or used there."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import dask
import numpy as np
import pytest
from dask.base import tokenize
from distributed import Client, wait

import ooc_graph as og
from ooc_graph.answers.late import late_columns
from ooc_graph.answers.unread import Unread
from ooc_graph.errors import (
    ClusterLostError,
    StoreReplacedError,
    UsageError,
    ValidationFailedError,
)
from ooc_graph.exchange import left
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.handle import Aborted
from ooc_graph.exchange.interface import Share
from ooc_graph.exchange.scheduler import run
from ooc_graph.layout import names
from ooc_graph.search import rank_answers
from tests import left_answers
from tests.left_answers import (
    DEADLINE_S,
    KERNELS,
    lose,
    root_of,
    same,
    searches_there,
    unread,
    until,
)
from tests.own_process import in_own_process
from tests.toy_ranks import start

SHARDS, STEPS = 4, (0, 7, 3 << 40)


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[int, Client]]:
    """By the number of their workers."""
    with start(2) as two, Client(two) as of_two, start(3) as three, Client(three) as of_three:
        yield {2: of_two, 3: of_three}


@pytest.fixture
def client(clients: dict[int, Client]) -> Client:
    return clients[3]


def built(folder: Path, step: int) -> og.Graph:
    graph = left_answers.built(folder, step, 13, SHARDS)
    assert graph.rows > (SHARDS - 1) << 10  # every shard has some
    return graph


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, og.Graph]:
    """By the step between ids."""
    return {step: built(tmp_path_factory.mktemp("graph"), step) for step in STEPS}


@pytest.fixture
def graph(graphs: dict[int, og.Graph]) -> og.Graph:
    return graphs[0]


def searched(kernel: str, graph: og.Graph, client: Client | bool, row: int = 3) -> Any:
    exchange = "auto" if client is False else "scheduler"
    return left_answers.searched(kernel, graph, client, row, exchange)


def addresses_of(answer: Any) -> list[str]:
    return [address for _, address in unread(answer).there]


def sent(client: Client) -> dict[bool, int]:
    """Bytes that workers have sent, by whether it was to other workers."""
    logs = client.run(lambda dask_worker: list(dask_worker.transfer_outgoing_log))
    bytes_to = dict.fromkeys((True, False), 0)
    for each in (one for log in logs.values() for one in log):
        bytes_to[each["who"] in logs] += each["total"]
    return bytes_to


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_values_are_those_of_a_process(
    kernel: str,
    step: int,
    workers: int,
    clients: dict[int, Client],
    graphs: dict[int, og.Graph],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, graph = clients[workers], graphs[step]
    right, found = searched(kernel, graph, False), searched(kernel, graph, client)
    apart = unread(found)
    assert len(set(addresses_of(found))) == workers
    # One of three workers has two ranks.
    assert isinstance(apart.kept, rank_answers.OfRanks)
    assert apart.kept.ranks == {2: 2, 3: 4}[workers]
    if kernel == "components":
        assert found.count == right.count
    whole = {name: found.to_dask_array(name) for name in right.names}
    with monkeypatch.context() as patch:
        patch.setattr(names, "CHUNK_BYTES", 8 << 10)
        cut = {name: found.to_dask_array(name) for name in right.names}
    for name in right.names:
        wanted = right.read(name)
        assert whole[name].numblocks == (1,)
        assert cut[name].numblocks == (-(-len(wanted) * wanted.itemsize // (8 << 10)),)
        for array in (whole[name], cut[name]):
            assert array.dtype == wanted.dtype
            assert client.compute(array).result(DEADLINE_S).tobytes() == wanted.tobytes()
    assert found.unread is apart
    before = found.seconds["order"]
    same(found, right)
    assert found.unread is None
    assert found.seconds["order"] > before
    assert list(found.seconds) == list(right.seconds)
    assert found.elapsed_s > 0
    # What was computed from the futures is still that.
    again = client.compute(cut[right.measure]).result(DEADLINE_S)
    assert again.tobytes() == right.read(right.measure).tobytes()


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_travels_before_it_is_asked_for(
    kernel: str, client: Client, graph: og.Graph
) -> None:
    before = sent(client)
    answer = searched(kernel, graph, client)
    assert answer.vertex.tolist() == list(range(graph.vertices))
    assert answer.elapsed_s > 0
    parts_bytes = unread(answer).described.nbytes
    assert parts_bytes >= (4 if kernel == "components" else 8) * graph.rows
    assert sum(sent(client).values()) - sum(before.values()) == 0
    assert answer.read(answer.measure).max() > 1
    after = sent(client)
    assert after[False] - before[False] >= parts_bytes
    assert len(answer.read(answer.names[1])) == graph.vertices
    assert sent(client) == after


@pytest.mark.parametrize("name", ["parent", "level", "component"])
def test_chunks_are_made_on_the_workers(
    name: str, client: Client, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = searched("components" if name == "component" else "bfs", graph, client)
    before, chunks = sent(client), 4
    dtype = unread(answer).dtypes[name]
    with monkeypatch.context() as patch:
        patch.setattr(names, "CHUNK_BYTES", graph.vertices * dtype.itemsize // chunks)
        array = answer.to_dask_array(name)
    assert array.numblocks == (chunks,)
    workers = len(addresses_of(answer))
    # Each worker's rows in order, cut at the chunks; of components they get their ids first.
    tasks = chunks * (workers + 3) + workers
    if name == "component":
        tasks += 2 * workers + 1
    assert len(array.__dask_graph__().to_dict()) == tasks
    kept = client.persist(array)
    wait(client.futures_of(kept), DEADLINE_S)
    after = sent(client)
    assert after[False] == before[False]
    # At most each value, with its position.
    assert 0 < after[True] - before[True] < 1.2 * graph.rows * (dtype.itemsize + 4)
    assert answer.unread is not None
    right = searched("components" if name == "component" else "bfs", graph, False)
    assert client.compute(kept).result(DEADLINE_S).tobytes() == right.read(name).tobytes()


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_answer_is_validated_on_a_worker(kernel: str, client: Client, graph: og.Graph) -> None:
    answer, before = searched(kernel, graph, client), sent(client)
    (verdict,) = og.validate(graph, answer, client=client)
    assert verdict.ok
    after = sent(client)
    assert answer.unread is not None
    # The parts of the other workers went to the one that validates; the client got a verdict.
    assert after[False] - before[False] < unread(answer).described.nbytes // 8
    assert 0 < after[True] - before[True] < 1.1 * unread(answer).described.nbytes
    same(answer, searched(kernel, graph, False))


def test_several_are_validated_together(client: Client, graph: og.Graph) -> None:
    answers = [searched(kernel, graph, client, row) for kernel in KERNELS for row in (3, 4)]
    there = [searched("bfs", graph, False), *answers]
    assert all(one.ok for one in og.validate(graph, there, client=client))
    assert all(one.ok for one in og.validate(graph, there, client=False))
    assert all(one.unread is None for one in answers)


def test_validation_finds_what_is_wrong_on_a_worker(client: Client, graph: og.Graph) -> None:
    answer = searched("bfs", graph, client)
    apart, (first, *rest) = unread(answer), unread(answer).there
    spoilt = client.submit(spoil, first[0], workers=[first[1]], pure=False)
    there = [(spoilt, first[1]), *rest]
    sizes = [apart.described.nbytes] * len(there)
    parts = left.Left(Cluster.of(client), there, sizes, apart.kept.narrow)
    columns = late_columns(Unread(apart.described, apart.graph_sha256, apart.kept, parts))
    with pytest.raises(ValidationFailedError, match="breaks rule 'level of parent'"):
        og.validate(graph, replace(answer, columns=columns), client=client)


def spoil(finished: Any) -> Any:
    (rank, tree), *_ = finished.kept.items()
    level = tree.level.copy()
    level[np.flatnonzero(level > 0)[3]] += 5
    return replace(finished, kept={**finished.kept, rank: replace(tree, level=level)})


def test_answers_come_along_unless_asked(client: Client, graph: og.Graph) -> None:
    answer = og.bfs(graph, root_of(graph), client=client, exchange="scheduler")
    assert answer.unread is None
    same(pickle.loads(pickle.dumps(answer)), searched("bfs", graph, False))


def test_what_nobody_refers_to_is_freed(client: Client, graph: og.Graph) -> None:
    # Outcomes that came along stay on the workers until garbage is collected.
    gc.collect()
    until(lambda: searches_there(client) == [])
    answer = searched("bfs", graph, client)
    array = answer.to_dask_array()
    assert len(searches_there(client)) == 3
    del answer
    assert client.compute(array.max()).result(DEADLINE_S) > 0
    del array
    until(lambda: searches_there(client) == [])
    answer = searched("bfs", graph, client)
    og.validate(graph, answer, client=client)
    assert len(answer.level) == graph.vertices
    until(lambda: searches_there(client) == [])


def test_dask_knows_how_much_there_is(client: Client, graph: og.Graph) -> None:
    answer = searched("sssp", graph, client)
    keys = [future.key for future, _ in unread(answer).there]
    nbytes, least = client.nbytes(keys, summary=False), unread(answer).described.nbytes
    assert least >= 8 * graph.rows
    assert least <= sum(nbytes.values()) < least + 1_000 * len(keys)


def test_answers_beyond_what_workers_have_room_for_come_home(
    client: Client, graph: og.Graph
) -> None:
    gc.collect()
    until(lambda: searches_there(client) == [])
    answers = [searched("bfs", graph, client, row) for row in range(8)]
    stay = [one for one in answers if one.unread is not None]
    # The worker with two of four ranks has half of each answer, more or less.
    busiest = max(client.nbytes([f.key for f, _ in unread(stay[0]).there], summary=False).values())
    most = rank_answers.spare_bytes(graph, "bfs")
    assert most == 8 * graph.rows
    assert stay == answers[-(1 + most // busiest) :]
    assert 1 < len(stay) < len(answers)
    until(lambda: len(searches_there(client)) == 3 * len(stay))
    for row, answer in enumerate(answers):
        same(answer, searched("bfs", graph, False, row))


def used(answer: Any) -> tuple[bool, bytes, bytes]:
    was_unread = answer.unread is not None
    return was_unread, answer.level.tobytes(), answer.parent.tobytes()


@pytest.mark.parametrize("through", ["submit", "delayed", "scatter"])
def test_tasks_read_what_they_are_given(through: str, client: Client, graph: og.Graph) -> None:
    answer, right = searched("bfs", graph, client), searched("bfs", graph, False)
    found: Any
    if through == "submit":
        # The worker has one thread, which the task that reads has.
        where = {"workers": addresses_of(answer)[:1]}
        found = client.submit(used, answer, pure=False, **where).result(DEADLINE_S)
    elif through == "delayed":
        found = client.compute(dask.delayed(used)(answer)).result(DEADLINE_S)
    else:
        found = client.submit(used, client.scatter(answer), pure=False).result(DEADLINE_S)
    assert found == (True, right.level.tobytes(), right.parent.tobytes())
    assert answer.unread is not None
    same(answer, right)


def test_another_process_reads_a_copy(client: Client, graph: og.Graph) -> None:
    answer, right = searched("sssp", graph, client), searched("sssp", graph, False)
    scheduler = client.scheduler_info()["address"]
    found = in_own_process(read_elsewhere, scheduler, pickle.dumps(answer))
    assert found == (True, right.distance.tobytes(), right.parent.tobytes())
    assert answer.unread is not None
    same(answer, right)


def read_elsewhere(scheduler: str, pickled: bytes) -> tuple[bool, bytes, bytes]:
    with Client(scheduler):
        answer = pickle.loads(pickled)
        was_unread = answer.unread is not None
        return was_unread, answer.distance.tobytes(), answer.parent.tobytes()


def test_tokens_and_copies_move_nothing(
    client: Client, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, other = searched("bfs", graph, client), searched("bfs", graph, client)
    right = searched("bfs", graph, False)
    monkeypatch.setattr(Cluster, "fetch", lambda *_: pytest.fail("columns were fetched"))
    assert tokenize(answer) == tokenize(answer) != tokenize(other)
    copied = pickle.loads(pickle.dumps(answer))
    assert answer.to_dask_array("parent").name == answer.to_dask_array("parent").name

    async def on_the_loop() -> tuple[str, bytes]:
        return tokenize(answer), pickle.dumps(answer)

    token, _ = client.sync(on_the_loop, callback_timeout=DEADLINE_S)
    assert token == tokenize(answer)
    monkeypatch.undo()
    monkeypatch.setattr(Cluster.of(client), "_looked_s", float("-inf"))

    async def read_on_the_loop() -> Any:
        return answer.level

    with pytest.raises(UsageError, match="read it in another thread"):
        client.sync(read_on_the_loop, callback_timeout=DEADLINE_S)
    same(copied, right)
    assert answer.unread is not None
    same(answer, right)


def test_who_pickles_while_parts_are_joined_gets_the_futures(
    client: Client, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, pickled = searched("bfs", graph, client), list[bytes]()
    narrowed = rank_answers.narrowed

    async def on_the_loop() -> None:
        pickled.append(pickle.dumps(answer))

    def slowly(*given: Any) -> Any:
        client.sync(on_the_loop, callback_timeout=DEADLINE_S)
        return narrowed(*given)

    monkeypatch.setattr(rank_answers, "narrowed", slowly)
    right = searched("bfs", graph, False)
    same(answer, right)
    (sent_then,) = pickled
    assert len(sent_then) < unread_bytes(answer) // 4


def unread_bytes(answer: Any) -> int:
    return sum(answer.read(name).nbytes for name in answer.names)


def test_what_is_done_again_is_no_answer(client: Client, graph: og.Graph) -> None:
    # Dask does a task again on a worker that was restarted under its address.
    kept = unread(searched("bfs", graph, client)).kept
    with pytest.raises(ClusterLostError, match="a worker that was lost: search again"):
        kept.narrow([Aborted("it no longer has the attempt", None)])


def test_a_part_that_dask_has_moved_is_found(graph: og.Graph) -> None:
    with start(3) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        address = addresses_of(answer)[1]
        client.retire_workers([address])
        until(lambda: address not in Cluster.of(client).look())
        assert og.validate(graph, answer, client=client)[0].ok
        assert answer.unread is not None
        assert address not in addresses_of(answer)
        same(answer, searched("bfs", graph, False))


@pytest.mark.parametrize("first", [pytest.param("read", marks=pytest.mark.slow), "validated"])
def test_a_lost_worker_is_an_error_and_no_wait(first: str, graph: og.Graph) -> None:
    with start(3) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        address = addresses_of(answer)[1]
        lose(answer, address, graph, client, first, called="part .* worker")
        # Others find it again; what cannot be brought is in nobody's way.
        for kernel in KERNELS:
            same(searched(kernel, graph, client), searched(kernel, graph, False))


def test_a_graph_that_was_replaced_is_an_error(client: Client, tmp_path: Path) -> None:
    graph = built(tmp_path, 0)
    answer, path = searched("bfs", graph, client), graph.path
    other = og.Kronecker(13, seeds=(5, 3))
    og.build(other, path, rows="both", shards=SHARDS, client=False, overwrite=True)
    for _ in range(2):
        with pytest.raises(StoreReplacedError):
            _ = answer.level
    with pytest.raises(StoreReplacedError):
        client.compute(answer.to_dask_array()).result(DEADLINE_S)
    # It is there still.
    assert answer.unread is not None


def test_a_closed_client_is_an_error(graph: og.Graph) -> None:
    with start(2) as cluster:
        with Client(cluster) as client:
            answer = searched("bfs", graph, client)
        with pytest.raises(ClusterLostError, match=r"the answer is on workers tcp://.* and tcp://"):
            _ = answer.level


def counting(rank: int) -> Any:
    yield Share((), ())
    return np.full(4, rank)


def make_counting(ranks: Sequence[int]) -> Any:
    return nullcontext(({rank: counting(rank) for rank in ranks}, Nothing()))


class Nothing:
    """What ranks share that tell each other nothing."""

    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        assert not any(payloads)


def total(rank: int, found: Any, ranks: int) -> tuple[int, int]:
    return int(found.sum()), rank + ranks


def test_a_run_leaves_its_results(client: Client) -> None:
    pairs, _ = run(client, make_counting, 4, finish=total, leaves=True)
    assert [told for told, _ in pairs] == [(4 * rank, rank + 4) for rank in range(4)]
    for rank, (_, (future, address)) in enumerate(pairs):
        finished = future.result(DEADLINE_S)
        assert finished.kept[rank].tolist() == [rank] * 4
        assert client.who_has([future])[future.key] == (address,)
    plain, _ = run(client, make_counting, 4, finish=total)
    assert plain == [told for told, _ in pairs]


def total_or_die(mark: Path, rank: int, found: Any, ranks: int) -> tuple[int, int]:
    """As `total`, but the worker of rank 1 dies the first time, after the others have finished."""
    if rank == 1 and not mark.exists():
        mark.touch()
        sleep(2)
        os._exit(1)
    return total(rank, found, ranks)


def test_a_lost_attempt_leaves_nothing(tmp_path: Path) -> None:
    with start(3) as cluster, Client(cluster) as client:
        finish = partial(total_or_die, tmp_path / "died")
        pairs, _ = run(client, make_counting, 4, finish=finish, leaves=True)
        assert [told for told, _ in pairs] == [(4 * rank, rank + 4) for rank in range(4)]
        assert (tmp_path / "died").exists()
        there = {future.key: future for _, (future, _) in pairs}
        until(lambda: sorted(searches_there(client)) == sorted(there))
        kept = [future.result(DEADLINE_S).kept for future in there.values()]
        assert sorted(rank for one in kept for rank in one) == [0, 1, 2, 3]


def test_parts_beside_a_lost_one_are_freed(graph: og.Graph) -> None:
    with start(3) as cluster, Client(cluster) as client:
        answer = searched("bfs", graph, client)
        lost, *_ = addresses_of(answer)
        os.kill(client.run(os.getpid, workers=[lost])[lost], signal.SIGKILL)
        until(lambda: lost not in Cluster.of(client).look())
        left.Left.bring_oldest(client, 0)
        until(lambda: searches_there(client) == [])
        with pytest.raises(ClusterLostError, match="search again"):
            answer.level.sum()
