"""The ways an answer comes about: one rank with all rows, all ranks here, ranks of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ooc_graph.errors import UsageError
from ooc_graph.exchange import local
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.devices import CPU
from ooc_graph.runtime.workplace import Place
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.edge_list import ROWS
from ooc_graph.types import AnyArray

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Course:
    """How a search went.

    Parameters
    ----------
    elapsed_s
        The search alone.
    levels
        (vertices, arcs examined, direction) per level or phase.
    """

    elapsed_s: float
    levels: tuple[tuple[int | None, int, str], ...]


def course_of(kernel: str, found: Any) -> Course:
    """Course of what a device found."""
    if kernel != "bfs":
        phases = tuple((None, arcs, phase) for phase, arcs in found.phase_arcs.items())
        return Course(found.elapsed_s, phases)
    columns = (found.level_vertices, found.level_arcs, found.level_direction)
    levels = zip(*(column.tolist() for column in columns), strict=True)
    return Course(
        found.elapsed_s,
        tuple((vertices, arcs, "pull" if way else "push") for vertices, arcs, way in levels),
    )


def slowest(courses: Sequence[Course]) -> Course:
    """Course of all ranks, which agree on everything but the clock."""
    return replace(courses[0], elapsed_s=max(course.elapsed_s for course in courses))


@dataclass(frozen=True)
class Written:
    """An answer that was written into a partial store, or its columns; and what is said of it."""

    course: Course
    specs: tuple[ArraySpec, ...] = ()
    entries: tuple[FileEntry, ...] = ()
    columns: Mapping[str, AnyArray] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchTask:
    """A search as it travels to workers.

    Parameters
    ----------
    path, identity
        The graph's.
    kernel, root, method
        What to search, by original id, and how.
    folder
        The partial store, or None.
    device
        ``cpu`` or ``cuda``.
    arrays
        ``numpy``, or ``cupy`` for an answer that stays on the device.
    budget_bytes
        Memory for a search whose arcs stay in the store, or device memory for one whose rows are in
        host memory or in the store; 0 where all are brought into memory.
    copies
        Whether rows in memory may be kept in another form besides.
    pinned_bytes
        Pinned host memory that rows may go to where a CUDA device's is refused; None: any.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    may_stay
        Whether arcs may stay in the store where a CUDA device's memory, or pinned memory, is
        refused; not where there are ranks to go on with.
    pins_if_busy
        Whether rows go there also where others have the device's memory.
    """

    path: str
    identity: str
    kernel: str
    root: int
    folder: str | None
    method: str = ROWS
    device: str = CPU
    arrays: str = "numpy"
    budget_bytes: int = 0
    copies: bool = True
    pinned_bytes: int | None = None
    host_bytes: int | None = None
    may_stay: bool = True
    pins_if_busy: bool = False

    @property
    def parts(self) -> Path:
        """Where ranks leave their parts of an answer that is written."""
        return Path(self.folder or "") / "spill"


class Maker(Protocol):
    """Makes the coroutines of a worker's ranks."""

    def __call__(self, shards: Sequence[int]) -> tuple[dict[int, Any], Any]:
        """Coroutines of these shards and what they share."""

    def build(self, shards: Sequence[int], kept: engine_cache.Ranks) -> tuple[dict[int, Any], Any]:
        """As the call, with ranks that are taken from ``kept`` and go back there."""


@dataclass(frozen=True)
class Ways(Generic[Answer]):
    """What an algorithm brings so that each exchange can carry it out; functions of a module.

    Parameters
    ----------
    whole
        One rank with the whole graph.
    join
        The answer from what every rank found.
    write_part
        Makes, of a folder, what writes a rank's part there and gives its course.
    gather
        The answer from the parts that ranks wrote.
    """

    whole: Callable[[SearchTask], Answer]
    join: Callable[[SearchTask, Graph, Sequence[Any]], Answer]
    write_part: Callable[[str], Callable[[int, Any], Course]]
    gather: Callable[[SearchTask, Sequence[Course]], Answer]

    def carry_out(
        self, graph: Graph, task: SearchTask, make: Maker, chosen: str, place: Place
    ) -> Answer:
        """Carry a task out by the exchange ``chosen``: ``one``, ``local`` or ``scheduler``.

        Raises
        ------
        UsageError
            If there is no cluster for ``scheduler``.
        """
        if chosen == "one":
            return place.call(self.whole, task)
        if chosen == "local":
            joined: Answer = place.call(_run_locally, task, make, self.join)
            return joined
        if place.client is None:
            raise UsageError("the scheduler exchange needs a Dask client")
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        run = partial(
            scheduler.run,
            place.client,
            make,
            graph.shards,
            threads=place.threads,
            note=place.note,
        )
        if task.folder is None:
            found, _ = run()
            return self.join(task, graph, found)
        courses, _ = run(finish=self.write_part(str(task.parts)))
        return place.call(self.gather, task, courses)


def _run_locally(
    task: SearchTask, make: Maker, join: Callable[[SearchTask, Graph, Sequence[Any]], Answer]
) -> Answer:
    """All ranks in this process, through the exchange that is the oracle of the others."""
    graph = engine_cache.open_same(task.path, task.identity)
    coroutines, shared = make.build(range(graph.shards), engine_cache.Ranks({}))
    found, _ = local.run([coroutines[s] for s in range(graph.shards)], shared, graph.shards)
    return join(task, graph, found)
