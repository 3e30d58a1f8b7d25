"""The options of a run of Graph500, the run itself, and what it records of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import FROM_ONE
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import SearchTask, Trace
from ooc_graph.report.data import Stage
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.algorithm import engine_for
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray, Progress
from ooc_graph.validate import Verdict


@dataclass(frozen=True)
class Graph500Options:
    """What to run."""

    # The graph.
    scale: int
    edge_factor: int = 16
    seeds: tuple[int, int] = (2, 3)
    searches: int = 64  # search keys per kernel; Graph500 has 64
    kernels: tuple[str, ...] = FROM_ONE  # ``bfs``, ``sssp`` or both
    # Whether every answer is checked (a run counts as Graph500 only if it is).
    validate: bool = True
    shards: int | None = None  # as for a build
    # Whether searches are repeated for at least 10 s where their energy can be measured.
    energy: bool = True
    compress: bool = False  # as for a build

    def __post_init__(self) -> None:
        unknown = [kernel for kernel in self.kernels if kernel not in FROM_ONE]
        if unknown or not self.kernels or len(set(self.kernels)) < len(self.kernels):
            raise UsageError(f"--kernels {','.join(self.kernels)}: choose bfs, sssp or bfs,sssp")
        if self.searches < 1:
            raise UsageError(f"--searches {self.searches}: give at least 1")
        self.building()

    def building(self, *, overwrite: bool = False) -> BuildOptions:
        """Options of the build."""
        return BuildOptions(
            shards=self.shards, overwrite=overwrite, compress=self.compress, anew=True
        )


@dataclass(frozen=True)
class Searched:
    """What a batch of searches says of one key.

    ``validate_s`` is its share of the time of a batch, of which ``later_s`` came after all
    searches. ``io_stats`` is what was read of the store; None if no rows are there. ``load_s`` is
    its share of the time in which the graph was loaded for a batch.
    """

    root: int
    trace: Trace
    verdict: Verdict | None
    validate_s: float
    edges: int
    reached: int
    io_stats: IoStats | None = None
    load_s: float = 0.0
    later_s: float = 0.0


def io_of(found: Sequence[Searched]) -> IoStats:
    """What searches together read of the store."""
    read = (one.io_stats for one in found if one.io_stats is not None)
    return reduce(IoStats.plus, read, IoStats())


@dataclass
class Run:
    """A run: its options, its workplace, and how long its stages took.

    ``tiers`` has, for kernels whose arcs stay in the store or are in pinned host memory, what is
    held and what was read.
    """

    options: Graph500Options
    folder: Path
    workplace: Workplace
    progress: Progress
    begun: float = field(default_factory=perf_counter)
    stages: list[Stage] = field(default_factory=list)
    tiers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def timed(self, name: str, function: Callable[[], Any]) -> Any:
        """Call a function as a stage of the run."""
        start = perf_counter() - self.begun
        result = function()
        self.stages.append(Stage(name, start, perf_counter() - self.begun))
        return result


@dataclass(frozen=True)
class BatchTask:
    """A batch of searches as it travels to the worker."""

    search: SearchTask  # what is searched, and what is held of it; of no root
    source: Kronecker  # its edges
    validate: bool  # whether the answers are checked
    # Memory of the device for searches and their validation together; None: what is free.
    device_limit_bytes: int | None = None
    # Whether answers of rows on the device go to host memory, as those of other rows do.
    on_host: bool = False
    at_once: int = 1  # answers that are validated together
    # Where answers wait for their validation, while the graph is not loaded; None: in memory.
    folder: str | None = None

    @property
    def kernel(self) -> str:
        """``bfs`` or ``sssp``."""
        return self.search.kernel

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.search.strategy.device

    @property
    def tier(self) -> int:
        """Where rows are, see `ooc_graph.model.strategy`."""
        return self.search.strategy.tier

    @property
    def stays_there(self) -> bool:
        """Whether answers stay on the CUDA device, and are validated there."""
        return self.device == CUDA and self.tier == MEMORY and not self.on_host

    def engine(self) -> AbstractContextManager[Engine]:
        """The graph on its device."""
        return engine_for(self.search)


_SURELY_ENOUGH_SCALE, _SURELY_ENOUGH_KEYS = 12, 64
_MOST_COUNTED_SCALE = 20


def refuse_few_keys(source: Kronecker, searches: int) -> None:
    """Refuse a graph that has fewer search keys than there are searches.

    On such a graph Graph500's draw gives up and takes isolated vertices, or a vertex twice. From
    scale 12 on there are always 64 keys.
    """
    if source.scale >= _SURELY_ENOUGH_SCALE and searches <= _SURELY_ENOUGH_KEYS:
        return
    if source.scale > _MOST_COUNTED_SCALE:
        return
    # Weights do not matter.
    _require_keys(source, *_keys_and_arcs(replace(source, weighted=False), searches))


@lru_cache(maxsize=1)
def _keys_and_arcs(source: Kronecker, searches: int) -> tuple[IntArray, AnyArray]:
    """Keys, and whether each has an arc; asked for twice, by the command before its cluster."""
    u, v, _ = source.block(0, source.edges)
    has_arc = np.zeros(source.vertices, np.bool_)
    has_arc[u[u != v]] = has_arc[v[u != v]] = True
    keys = source.search_keys(searches, degree=has_arc)
    return keys, has_arc[keys]


def _require_keys(source: Kronecker, keys: IntArray, has_arc: AnyArray) -> None:
    if (usable := len(np.unique(keys[has_arc]))) < len(keys):
        raise UsageError(
            f"scale {source.scale} gives only {usable} different search keys that have an arc, and "
            f"{len(keys)} searches are asked for; give a smaller --searches or a larger --scale"
        )


def search_keys(graph: Graph, source: Kronecker, count: int) -> IntArray:
    """Graph500's search keys: drawn at random, vertices without an arc left out.

    UsageError if the graph has too few.
    """
    internal_of = graph.internal_of()
    keys = source.search_keys(count, degree=lambda ids: internal_of[ids] >= 0)
    _require_keys(source, keys, internal_of[keys] >= 0)
    return keys
