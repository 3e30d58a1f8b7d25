"""Searches from several sources, each with an answer of its own: a folder of stores.

If every worker has the memory that a search by one of them is planned to use, sources are dealt to
the workers, each of which opens the graph and searches as a process without a cluster does. Else,
and in this process, one search follows the other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from ooc_graph.answers.several import Answers, store_of
from ooc_graph.answers.within import Within
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.layout.outputs import refuse_existing
from ooc_graph.layout.store_folder import refuse_other_folder, store_folder, store_within
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import ANY, ROWS, Request
from ooc_graph.model.resources import CPU, CudaLimits
from ooc_graph.runtime import process, same_graph
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.execute import plan_at, say
from ooc_graph.search.plan import Plan
from ooc_graph.search.single import search
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.types import IntArray, NoProgress, Progress

# What this process wrote last, by folder and graph: the next answer shares its vertices.
_latest: dict[tuple[Path, str], Stored] = {}
Known: TypeAlias = dict[str, Any]
"""What a search tells of itself, by the names that a `Result` has for it."""


@dataclass(frozen=True)
class SeveralTask:
    """What all searches of a call have in common, as it travels to workers."""

    # Of the graph.
    path: str
    identity: str
    request: Request  # what is searched, and how
    # The folder of stores, and that of this run in it.
    folder: Path
    attempt: Path
    # What one worker may use.
    limit_bytes: int
    device: str
    cuda_limits: CudaLimits

    @property
    def kernel(self) -> str:
        """For the names of tasks."""
        return self.request.kernel

    def write(self, graph: Graph, root: int, workplace: Workplace) -> Known:
        """Search from a root and write the answer; nothing is known of one that is there."""
        final = store_of(self.folder, root)
        if final.exists():
            return {}
        with store_within(self.attempt, final) as store:
            found = search(
                graph,
                self.request.kernel,
                root,
                workplace=workplace,
                progress=NoProgress(),
                out=store,
                exchange=self.request.exchange,
                method=self.request.method,
                within=self.request.within,
                like=_latest.get((self.folder, self.identity)),
            )
        assert isinstance(found.columns, Stored)
        _latest.clear()
        _latest[self.folder, self.identity] = replace(found.columns, path=final)
        return {"elapsed_s": found.elapsed_s, "info": found.info}


def search_several(
    graph: Graph,
    kernel: str,
    roots: IntArray,
    *,
    workplace: Workplace,
    progress: Progress,
    out: Path,
    exchange: str = ANY,
    method: str = ROWS,
    within: Within | None = None,
    overwrite: bool = False,
) -> Answers[Any]:
    """Search from each of the roots, original ids of the graph, and write the answers to a folder.

    Answers of the same graph and kernel that are there already stay as they are. Errors are those
    of `ooc_graph.bfs`; answers that were written before one stay.
    """
    same_graph.require_same(graph)
    graph.require(ORDER_OF[kernel])
    # Workers may stand in another folder.
    out = Path(os.path.abspath(out))  # noqa: PTH100 - links stay as they are
    begun, begun_with = perf_counter(), begun_with_of(graph, kernel, within)
    refuse_other_folder(out, begun_with, overwrite)
    first = plan_at(workplace, graph, Request(kernel, exchange, method, within=within))
    with store_folder(out, begun_with, overwrite=overwrite) as attempt:
        left = [root for root in roots.tolist() if not _is_there(store_of(out, root))]
        if done := len(roots) - len(left):
            progress.note(f"going on with {done:,} of {len(roots):,} answers written before")
        if left:
            say(first, progress)
        task = SeveralTask(
            str(graph.path),
            graph.identity,
            first.request,
            out,
            attempt,
            workplace.resources(on_cpu=True).least_limit_bytes,
            # Workers decide as this process has, which has asked all of them.
            CPU if first.device == CPU else workplace.wanted,
            workplace.cuda_limits,
        )
        if workplace.client is None or first.reserved.is_of_ranks or not _fits_all(task, first):
            known = _in_turn(task, graph, left, workplace, progress)
        else:
            known = _dealt(task, left, workplace, progress)
    kind: Any = ALGORITHMS[kernel].result
    each = dict(zip(left, known, strict=True))
    return Answers(kind, out, roots, perf_counter() - begun, each)


def begun_with_of(graph: Graph, kernel: str, within: Within | None = None) -> dict[str, str]:
    """What the bytes of the answers follow from, as a folder of them records it."""
    limits = {} if within is None else within.facts
    return {"kernel": kernel, "graph": graph.content_sha256, **limits}


def _is_there(answer: Path) -> bool:
    """Whether an answer was written before; OutputExistsError if something else is there."""
    refuse_existing(answer, "result", overwrite=True)
    return answer.exists()


def _fits_all(task: SeveralTask, plan: Plan) -> bool:
    """Whether every worker has the memory that the worker with most of it was planned to use."""
    return plan.reserved.host_bytes <= task.limit_bytes


def _in_turn(
    task: SeveralTask, graph: Graph, roots: list[int], workplace: Workplace, progress: Progress
) -> list[Known]:
    """Search from one root after the other."""
    known = []
    with progress.stage(task.request.kernel, len(roots), "searches") as bar:
        for root in roots:
            known.append(task.write(graph, root, workplace))
            bar.advance(1)
    return known


def _dealt(
    task: SeveralTask, roots: list[int], workplace: Workplace, progress: Progress
) -> list[Known]:
    """Deal the roots to the workers, some to a task."""
    with workplace.workforce() as workforce:
        size = max(1, min(_MOST_ROOTS, len(roots) // (_TASKS * workforce.budget.slots)))
        items = [(task, roots[at : at + size]) for at in range(0, len(roots), size)]
        found = run_all(
            workforce,
            progress,
            task.request.kernel,
            search_from,
            items,
            total=len(roots),
            unit="searches",
            amount=len,
        )
    return [known for some in found for known in some]


# Tasks that each thread of a worker has at least, if there are enough roots; and roots of a task.
_TASKS, _MOST_ROOTS = 8, 4


def search_from(task: SeveralTask, roots: list[int]) -> list[Known]:
    """Search from roots and write the answers; runs on a worker.

    Answers that are there stay: a task is done again if its worker is lost.
    """
    return process.without_traceback(_search_from, task, roots)


def _search_from(task: SeveralTask, roots: list[int]) -> list[Known]:
    workplace = ThisProcess(task.limit_bytes, task.device, task.cuda_limits)
    graph = _opened(task.path, task.identity)
    return [task.write(graph, root, workplace) for root in roots]


# A search finds out by itself whether the store was replaced since it was opened.
_opened = lru_cache(maxsize=1)(same_graph.open_same)
