"""What `scaling.py` runs on workers: searches by ranks, noted superstep by superstep, or by one.

What ranks do to send less, and in fewer supersteps, is switched off by name while they search.
"""

import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from harness.timing import answer_of, arcs_of
from ranks import load_alone

import ooc_graph as og
from ooc_graph.exchange.codec import _smallest
from ooc_graph.exchange.interface import Question, Share
from ooc_graph.exchange.party import Party
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.cpu.bfs.rank import CpuBfsRank, push_rows
from ooc_graph.model.task import SearchTask
from ooc_graph.search.ranks import MakeRanks
from ooc_graph.search.single import ALGORITHMS
from ooc_graph.types import AnyArray

_push, _addressed = CpuBfsRank.push, Party._addressed


@kernel
def push_each(
    out: Any, dealt: Any, rows: Any, visited: Any, sent: Any, target: Any, parent: Any
) -> tuple[int, int]:
    """As `push_rows`, but neighbours of several rows are listed once for each of these."""
    listed, examined = 0, 0
    for index in range(len(rows)):
        one, lists = rows[index : index + 1], (target[listed:], parent[listed:])
        more, looked = push_rows(out, dealt, one, visited, sent, lists[0], lists[1])
        listed, examined = listed + more, examined + looked
    return listed, examined


def push_all(rank: Any, shared: Any) -> tuple[AnyArray, AnyArray, int]:
    """Candidates of a rank, of which a target may have as many as there are arcs to it."""
    vertices, rank.vertices = rank.vertices, max(rank.vertices, rank._frontier_arcs)
    try:
        return _push(rank, shared)
    finally:
        rank.vertices = vertices


@contextmanager
def not_reduced() -> Iterator[None]:
    """Context in which ranks send all candidates of a target, not the least."""
    with (
        patch.object(CpuBfsRank, "push", push_all),
        patch("ooc_graph.kernels.cpu.bfs.rank.push_rows", push_each),
        patch("ooc_graph.traverse.sssp.smallest_of_each", lambda ids, values: (ids, values)),
    ):
        yield


def uncoded(*dtypes: type) -> AbstractContextManager[Any]:
    """Context in which arrays of some dtypes travel as they are: bitmaps are uint64, ids uint32."""

    def smallest(array: AnyArray) -> AnyArray | None:
        return None if array.dtype in dtypes else _smallest(array)

    return patch("ooc_graph.exchange.codec._smallest", smallest)


SWITCHES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "codec": partial(uncoded, np.uint32, np.uint64),
    "codes of bitmaps": partial(uncoded, np.uint64),
    "codes of ids": partial(uncoded, np.uint32),
    "bits told before": lambda: patch(
        "ooc_graph.exchange.disjoint.Disjoint.filled", lambda _, words: words
    ),
    "pushing ahead": lambda: patch("ooc_graph.traverse.bfs.FEW_ARCS", -1),
    "owner-reduce": not_reduced,
}
"""What can be switched off."""


@dataclass
class Log:
    """What the ranks of a process did, superstep by superstep.

    ``begun`` are seconds, and processor seconds of all its threads, when the first rank was
    resumed, and when the last had ended; ``steps_s`` seconds of the ranks' steps. ``is_share`` says
    what they asked, and ``sent`` has the bytes that went to other processes.
    """

    begun: list[tuple[float, float]] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    is_share: list[bool] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)

    def of(self, coroutine: Any) -> Generator[Question, Any, tuple[Any, "Log"]]:
        """The coroutine of a rank, noting what it does; it returns this with the rank's tree."""
        answer: Any = None
        for number in range(1 << 30):
            begun = perf_counter()
            if number == len(self.steps_s):
                self.begun.append((begun, process_time()))
                self.steps_s.append(0.0)
            try:
                question = coroutine.send(answer)
            except StopIteration as stop:
                end = perf_counter()
                self.steps_s[number] += end - begun
                self.begun[number + 1 :] = [(end, process_time())]
                return stop.value, self
            self.steps_s[number] += perf_counter() - begun
            self.is_share[number:] = [isinstance(question, Share)]
            answer = yield question
        raise AssertionError("a search ends")

    def counting(self) -> Callable[..., Any]:
        """`Party._addressed`, noting the bytes."""

        def addressed(party: Party, kind: Any, parts: Any) -> Any:
            arrays = [a for each in parts.values() for part in each for a in part.arrays]
            self.sent.append(sum(array.nbytes for array in arrays))
            return _addressed(party, kind, parts)

        return addressed


@contextmanager
def make(
    task: SearchTask, off: Sequence[str], mine: Sequence[int], ranks: int | None = None
) -> Iterator[tuple[Any, Any]]:
    """Coroutines of a worker's ranks, as the package makes them, with some things off."""
    log = Log()
    with ExitStack() as stack:
        for name in off:
            stack.enter_context(SWITCHES[name]())
        stack.enter_context(patch.object(Party, "_addressed", log.counting()))
        made = MakeRanks(task, ALGORITHMS[task.kernel].start)
        coroutines, shared = stack.enter_context(made(mine, ranks))
        yield {shard: log.of(one) for shard, one in coroutines.items()}, shared


@cache
def _search_of(path: str, kernel: str) -> Any:
    return load_alone(og.open(path), kernel, 0)


def alone(path: str, kernel: str, roots: Sequence[int]) -> list[dict[str, Any]]:
    """Searches of the whole graph by one process of as many threads as its worker has."""
    search, found = _search_of(path, kernel), []
    for root in roots:
        begun = process_time()
        tree = search.run(root)
        used = process_time() - begun
        seen = {"seconds": tree.elapsed_s, "processor_s": used, "arcs": arcs_of(tree)}
        found.append(seen | {"answer": checksum(answer_of(tree))})
    return found


def checksum(columns: Sequence[bytes]) -> int:
    """Of parents and of levels or distances, by internal id."""
    return zlib.crc32(columns[1], zlib.crc32(columns[0]))
