"""Results, by original id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ooc_graph.answers.compared import Compared
from ooc_graph.answers.frames import Arrays, Exports
from ooc_graph.answers.info import Info
from ooc_graph.answers.paths import InMemory, InStore, Parents, Predecessors, paths_to, vertex_ids
from ooc_graph.errors import CorruptStoreError, NotAStoreError, UsageError
from ooc_graph.layout.names import COMPONENT, DISTANCE, LEVEL, NEAREST, PARENT, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True, repr=False, eq=False)
class Result(Compared, Exports):
    """What an algorithm found for every vertex: arrays, or the store from which they are read.

    ``root`` is the original id of the source; None if an algorithm has none. ``elapsed_s`` are
    seconds of the search alone, as Graph500 times it; None if opened from a store.

    ``info`` says how it was found: device, strategy, seconds by part, bytes by kind of memory, and
    which strategies were rejected. It is empty if the result was opened.
    """

    root: int | None
    elapsed_s: float | None
    columns: Arrays
    info: Info = Info()  # noqa: RUF009 - frozen

    kernel = ""
    measure = ""

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a stored result, as the class of its kernel."""
        stored = Stored.open(path, "result")
        name, root = stored.attributes.get("kernel"), stored.attributes.get("root")
        # These import this module.
        from ooc_graph.answers.matrix import LevelsResult, PairsResult  # noqa: PLC0415
        from ooc_graph.answers.pagerank import PagerankResult  # noqa: PLC0415

        kinds: list[Any] = [BfsResult, SsspResult, ComponentsResult, PagerankResult]
        kinds += [PairsResult, LevelsResult]
        kind: Any = next((one for one in kinds if one.kernel == name), None)
        if kind is None:
            raise NotAStoreError(f"{path}: holds a result of {name}, unknown to this version")
        if not issubclass(kind, cls):
            wanted = cls.kernel or "a search"
            raise UsageError(f"{path}: holds a result of {kind.kernel}, not of {wanted}")
        count = stored.attributes.get("components", None if kind is ComponentsResult else 0)
        sources = stored.attributes.get("sources", [])
        is_own = "graph_sha256" in stored.attributes and isinstance(count, int)
        is_own &= isinstance(stored.attributes.get("limit", 0), (int, float))
        is_own &= isinstance(sources, list) and all(isinstance(one, int) for one in sources)
        if not is_own or issubclass(kind, TreeResult) != isinstance(root, int):
            raise CorruptStoreError(
                f"{stored.path}: its attributes are not those of an answer; search again"
            )
        opened: Self = kind(root, None, stored, **kind.facts(stored.attributes, stored))
        return opened

    @classmethod
    def facts(cls, attributes: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:  # noqa: ARG003
        """What attributes, and arrays that are no columns, say: by field."""
        return {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time by part, as in ``info``."""
        return self.info.seconds

    @property
    def tier_bytes(self) -> Mapping[str, int]:
        """Bytes that the search reserved and read, as in ``info``."""
        return self.info.tier_bytes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.frame_names.values())

    @property
    def vertex(self) -> IntArray:
        """Original ids, ascending: int64 (vertices,)."""
        return self.read(VERTEX)


@dataclass(frozen=True, repr=False, eq=False)
class TreeResult(Result):
    """Tree of a single-source search.

    ``limit`` is the largest level or distance that counts as reached, if ``cutoff=`` or
    ``targets=`` set one; None: everything reachable is reached. ``sources`` are the original ids,
    ascending, if they were given as ``sources=``; ``root`` is the first of them. Empty: the only
    source is ``root``.
    """

    root: int
    limit: float | None = None
    sources: tuple[int, ...] = ()

    @classmethod
    def facts(cls, attributes: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:  # noqa: ARG003
        """As of any result."""
        sources = tuple(attributes.get("sources") or ())
        return {"limit": attributes.get("limit"), "sources": sources}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return VERTEX, PARENT, self.measure, *([NEAREST] if self.sources else [])

    @property
    def nearest(self) -> IntArray:
        """The nearest source of each vertex, -1 unreached: int64 (vertices,).

        Among equally near sources, the smallest id.
        """
        if self.sources:
            return self.read(NEAREST)
        return np.where(self.reached, self.root, -1)

    def _begun_at(self) -> dict[str, object]:
        if not self.sources:
            return super()._begun_at()
        some = ", ".join(map(str, self.sources[:3]))
        return {"sources": f"[{some}{', ...' * (len(self.sources) > 3)}]"}

    def _identity(self) -> tuple[Any, ...]:
        return *super()._identity(), self.limit, self.sources

    def frame_columns(self) -> dict[str, str]:
        """As for any result, and the nearest of several sources."""
        return {**self.frame_names, **({NEAREST: NEAREST} if self.sources else {})}

    @property
    def parent(self) -> IntArray:
        """Original id of each vertex's parent; the source's is itself, -1 unreached: int64."""
        return self.read(PARENT)

    @property
    def reached(self) -> AnyArray:
        """Whether the search reached each vertex: bool (vertices,)."""
        return self.parent >= 0

    def path_to(self, vertex: int) -> IntArray:
        """The path in the tree to a vertex: original ids, from the source to the vertex.

        int64 (vertices of the path,), both ends included. For a stored answer only chunks of
        parents are read, and of ids if they have gaps.

        Raises
        ------
        NoPathError
            If the search did not reach it.
        UnknownVertexError
            If the graph has no such vertex.
        """
        return self.paths_to([vertex])[0]

    def paths_to(self, vertices: Iterable[int]) -> list[IntArray]:
        """The path to each of some vertices, in their order; as `path_to`."""
        return paths_to(self._parents(), vertex_ids(vertices))

    def predecessors(self) -> Predecessors:
        """A mapping from each vertex that was reached, except the source, to its predecessor.

        It equals ``dict(networkx.bfs_predecessors(graph, source))``, but each entry is looked up on
        access.
        """
        return Predecessors(self._parents())

    def _parents(self) -> Parents:
        if isinstance(self.columns, Stored):
            return InStore(self.columns)
        return InMemory(self.on_host(VERTEX), self.on_host(PARENT))


def require_unlimited(result: Result, name: str) -> None:
    """Refuse an answer that Graph500's rules are not for; UsageError begins with its name."""
    if isinstance(result, TreeResult) and result.sources:
        raise UsageError(f"{name}: is of several sources at once, and the rules are for one tree")
    if isinstance(result, TreeResult) and result.limit is not None:
        raise UsageError(
            f"{name}: has nothing that is farther than {result.limit}, and the rules are for whole "
            "answers: search without cutoff= and targets= to validate"
        )


@dataclass(frozen=True, repr=False, eq=False)
class BfsResult(TreeResult):
    """Breadth-first search tree."""

    kernel = "bfs"
    measure = LEVEL
    frame_names = {"vertex": VERTEX, "distance": LEVEL, "predecessor": PARENT}  # noqa: RUF012

    @property
    def level(self) -> AnyArray:
        """Hops from the root, -1 unreached: int32 (vertices,)."""
        return self.read(LEVEL)


@dataclass(frozen=True, repr=False, eq=False)
class SsspResult(TreeResult):
    """Single-source shortest paths."""

    kernel = "sssp"
    measure = DISTANCE
    frame_names = {"vertex": VERTEX, "distance": DISTANCE, "predecessor": PARENT}  # noqa: RUF012

    @property
    def distance(self) -> AnyArray:
        """Distance from the root: float32 or float64 (+inf unreached), or exact int64.

        Unreached vertices of integer graphs have the largest int64.
        """
        return self.read(DISTANCE)


@dataclass(frozen=True, repr=False, eq=False)
class ComponentsResult(Result):
    """Weakly connected components; `elapsed_s` is the time until they are known by internal id."""

    kernel = "components"
    measure = COMPONENT
    frame_names = {"vertex": VERTEX, "labels": COMPONENT}  # noqa: RUF012

    @property
    def component(self) -> IntArray:
        """Smallest original id of each vertex's component: int64 (vertices,)."""
        return self.read(COMPONENT)

    @property
    def count(self) -> int:
        """Number of components."""
        if isinstance(self.columns, Stored):
            return int(self.columns.attributes["components"])
        if (unread := self.unread) is not None:
            return int(unread.attributes["components"])
        return int(np.count_nonzero(self.component == self.vertex))
