"""Batches of searches whose answers are in host memory, or in files; runs on the worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Columns, Tree, TreeColumns
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.graph500.waiting import Waiting
from ooc_graph.layout.names import PARENT, TUPLES
from ooc_graph.layout.stored import Cursor
from ooc_graph.layout.whole_file import disk_full_reported
from ooc_graph.model.engine import Engine
from ooc_graph.model.task import Trace
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.compile_parts import check_pair
from ooc_graph.runtime.process import thread_count, without_traceback
from ooc_graph.runtime.stored_answers import vertices_of
from ooc_graph.runtime.validation import TREES, check_trees
from ooc_graph.search.trees import run_search
from ooc_graph.types import Advance, AnyArray, IntArray, unseen
from ooc_graph.validate import Verdict

_PREFIX, WARM_UP = ".answers-", ".warm-up-"


@dataclass(frozen=True)
class AnswerFiles:
    """Columns of answers, each in a file of its own; read in the order they were written."""

    folder: Path
    _waiting: deque[list[tuple[Path, np.dtype[Any], int]]] = field(default_factory=deque)

    def write(self, columns: Columns, names: Sequence[str]) -> None:
        """Write some columns of an answer, a piece at a time.

        DiskFullError: names the folder that is full.
        """
        files = []
        for name in names:
            path = self.folder / f"{len(self._waiting)}-{name}"
            with disk_full_reported(self.folder.parent), path.open("wb") as file:
                for part in columns.parts(name, 0, columns.size):
                    part.tofile(file)
            files.append((path, columns.dtypes[name], columns.size))
        self._waiting.append(files)

    def read(self) -> list[AnyArray]:
        """The columns of the next answer; the system keeps of them what memory has room for."""
        return [
            np.asarray(np.memmap(path, dtype, "c", shape=(size,)))
            for path, dtype, size in self._waiting.popleft()
        ]


def remove_filed(folder: Path) -> None:
    """Remove what a run that was killed left in its folder."""
    for left in (*folder.glob(f"{_PREFIX}*"), *folder.glob(f"{WARM_UP}*")):
        rmtree(left, ignore_errors=True)


_PIECE_ROWS = 1 << 18
SEARCHED = 0.5
"""Part of a search that is done when its answer has yet to be validated."""


def warm_up(task: BatchTask, key: int) -> None:
    """Load the graph, compile, and search once untimed, as the reference does."""
    with task.engine() as engine:
        run_search(engine, key)
    if task.validate and not task.stays_there:
        check_pair(task.kernel, task.source.weighted)


def search_batch(
    task: BatchTask,
    keys: IntArray,
    advance: Advance = unseen,
    waiting: Waiting | None = None,
) -> list[Searched]:
    """Search from each key and validate the answers, in as few passes over the edges as fit.

    ``advance`` is told of parts of searches: one is half done if it has yet to be validated.
    Answers that all fit one pass join those that are ``waiting`` for it, without a verdict.
    """
    if task.stays_there:
        found = on_device.search_batch(task, keys)
        advance(len(found))
        return found
    batches = [keys[i : i + task.at_once] for i in range(0, len(keys), task.at_once)]
    return [one for batch in batches for one in _searched(task, batch, advance, waiting)]


def search_there(
    run: Run, task: BatchTask, waiting: Waiting | None, keys: IntArray, advance: Advance
) -> list[Searched]:
    """Call `search_batch` in this process, or on a worker, whose progress comes at its end."""
    if run.workplace.client is None:
        return run.workplace.call(search_batch, task, keys, advance, waiting)
    found: list[Searched] = run.workplace.call(search_batch, task, keys)
    advance(len(found))
    return found


def search_dealt(task: BatchTask, keys: IntArray) -> list[Searched]:
    """As `search_batch`, on any worker: one that has not searched the graph yet warms up."""

    def do() -> list[Searched]:
        if engine_cache.loaded(task.search.key, task.search.capacity) is None:
            warm_up(task, int(keys[0]))
        return search_batch(task, keys)

    return without_traceback(do)


def _searched(
    task: BatchTask, keys: IntArray, advance: Advance, waiting: Waiting | None
) -> list[Searched]:
    """Search from each key and validate the answers, in one pass over the edges if they fit it."""
    found: list[Searched] = []
    if task.validate and task.folder is not None:
        return _by_files(task, keys, Path(task.folder), advance)
    with task.engine() as engine:
        trees = _trees(engine, keys, found, advance)
        if task.validate:
            answers = (_answer(engine, tree) for tree in trees)
            return _validated(task, found, answers, len(keys), advance, waiting)
        for _ in trees:
            advance(1 - SEARCHED)
    return found


def _by_files(task: BatchTask, keys: IntArray, folder: Path, advance: Advance) -> list[Searched]:
    """As `_searched`; the graph is released before the answers, which are in files, are read."""
    found: list[Searched] = []
    begun = perf_counter()
    with TemporaryDirectory(prefix=_PREFIX, dir=folder) as inner:
        files = AnswerFiles(Path(inner))
        with task.engine() as engine:
            load_s = (perf_counter() - begun) / len(keys)
            vertices = vertices_of(engine.graph)
            for tree in _trees(engine, keys, found, advance):
                files.write(TreeColumns(tree, engine.ids), (PARENT, TREES[task.kernel][2]))
        del engine, tree
        engine_cache.release()
        kind = TREES[task.kernel][0]
        answers = (kind(key, *files.read(), vertices) for key in keys.tolist())
        validated = _validated(task, found, answers, len(keys), advance)
        return [replace(one, load_s=load_s) for one in validated]


class _Clocked(Iterator[Any]):
    """Passes on what is made as it is asked for, and counts the seconds that this takes."""

    def __init__(self, made: Iterable[Any]) -> None:
        self._made, self.seconds = iter(made), 0.0

    def __next__(self) -> Any:
        begun = perf_counter()
        try:
            return next(self._made)
        finally:
            self.seconds += perf_counter() - begun


def _validated(
    task: BatchTask,
    found: list[Searched],
    answers: Iterable[Any],
    count: int,
    advance: Advance,
    waiting: Waiting | None = None,
) -> list[Searched]:
    """What was found, with verdicts; ``found`` may be filled as answers are asked for."""
    edge = (1 - SEARCHED) * count / task.source.edges
    begun, asked, kind = perf_counter(), _Clocked(answers), TREES[task.kernel][1]

    def keep(validator: Any) -> bool:
        if waiting is None or validator.taken < count:
            return False
        waiting.validators[task.kernel] = validator
        advance((1 - SEARCHED) * count)
        return True

    given = kind, asked, count, task.source, lambda edges: advance(edges * edge), keep
    verdicts: list[Verdict | None] = [*check_trees(*given)] or [None] * count
    each = (perf_counter() - begun - asked.seconds) / count
    return [
        replace(one, verdict=verdict, validate_s=each)
        for one, verdict in zip(found, verdicts, strict=True)
    ]


def _trees(
    engine: Engine, keys: IntArray, found: list[Searched], advance: Advance
) -> Iterator[Tree]:
    """Search as the trees are asked for; what is known of each goes to ``found``."""
    for key in keys.tolist():
        before = engine.io_stats
        tree, trace = run_search(engine, key)
        io_stats = engine.read_since(before)
        edges, count = _inside(engine, tree)
        found.append(Searched(key, _counted(trace), None, 0.0, edges, count, io_stats))
        advance(SEARCHED)
        yield tree


def _inside(engine: Engine, tree: Tree) -> tuple[int, int]:
    """Tuples between vertices that a tree reaches, and how many these are."""
    stored, rows = engine.graph.stored, len(tree.parent)
    cursor = None if engine.tuples is not None else Cursor(stored.chunk, stored.spec(TUPLES))
    none, ends, count = np.iinfo(tree.parent.dtype).max, 0, 0
    for start in range(0, rows, _PIECE_ROWS):
        stop = min(start + _PIECE_ROWS, rows)
        tuples = engine.tuples[start:stop] if cursor is None else cursor.read(start, stop)
        reached = tree.parent[start:stop] != none
        ends += int(tuples[reached].sum(dtype=np.int64))
        count += int(np.count_nonzero(reached))
    return ends // 2, count


def _answer(engine: Engine, tree: Tree) -> Any:
    """What is validated; the caller alone has its columns."""
    kind, _, measure = TREES[engine.kernel]
    columns = TreeColumns(tree, engine.ids).in_memory(thread_count(), (PARENT, measure))
    return kind(tree.root, columns[PARENT], columns[measure], vertices_of(engine.graph))


def _counted(trace: Trace) -> Trace:
    """Without levels whose arcs were not counted on the way: that comes after all searches."""
    return replace(trace, levels=()) if any(arcs < 0 for _, arcs, _ in trace.levels) else trace
