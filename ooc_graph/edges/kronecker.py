"""Graph500's Kronecker graph as a source of edges: any block of it, in any order.

Edge e is a function of (scale, seeds, e) alone, so that nothing is stored and any worker can make
any part. Bit-identical to the Graph500 reference 3.0 generator (edges, float32 weights) and to
its choice of search keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.edges.interface import SourceDefaults, Unit, ranges, units_of
from ooc_graph.edges.multiple_recursive import Degree, choose_keys, edge_powers, seed_arrays
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cpu.build.kronecker import generate_into
from ooc_graph.kernels.cpu.build.random_draws import SCRATCH_WORDS
from ooc_graph.kernels.cuda.build import kronecker as cuda_kronecker
from ooc_graph.ranges import in_ranges
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, EdgeBlock, IntArray

MAX_SCALE = 40
EDGES_PER_THREAD = 1 << 15

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Kronecker(SourceDefaults):
    """Graph500's generator: ``edge_factor * 2**scale`` undirected tuples on ``2**scale`` vertices.

    Parameters
    ----------
    scale
        log2 of the number of vertices, 1 to 40.
    edge_factor
        Tuples per vertex, at least 1.
    seeds
        The two user seeds, any unsigned 64-bit integers; the reference uses (2, 3).
    weighted
        Whether `read` yields weights; `block` always does. The tuples are the same either way.

    Raises
    ------
    UsageError
        For parameters out of range.

    References
    ----------
    Graph500 benchmark, reference code 3.0 (https://github.com/graph500/graph500).
    L'Ecuyer, Blouin, Couture, "A search for good multiple recursive random number generators",
    ACM TOMACS 3 (1993).
    """

    scale: int
    _: KW_ONLY
    edge_factor: int = 16
    seeds: tuple[int, int] = (2, 3)
    weighted: bool = True

    # A tuple joins its vertices both ways.
    directed = False
    # Making the edges again is cheaper than storing them.
    rereadable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _integer("scale", self.scale))
        object.__setattr__(self, "edge_factor", _integer("edge_factor", self.edge_factor))
        seeds = tuple(_integer("seeds", seed) for seed in self.seeds)
        object.__setattr__(self, "seeds", seeds)
        if not 1 <= self.scale <= MAX_SCALE:
            raise UsageError(f"scale is {self.scale}: give one from 1 to {MAX_SCALE}")
        if self.edge_factor < 1:
            raise UsageError(f"edge_factor is {self.edge_factor}: give at least 1")
        if self.edge_factor << self.scale >= 1 << 63:
            raise UsageError("edge_factor * 2**scale must stay below 2**63")
        if [0 <= seed < 1 << 64 for seed in self.seeds] != [True, True]:
            raise UsageError(f"seeds are {self.seeds}: give two integers in [0, 2**64)")

    @property
    def vertices(self) -> int:
        """Number of vertices, isolated ones included."""
        return 1 << self.scale

    @property
    def edges(self) -> int:
        """Number of tuples, duplicates and self-loops included."""
        return self.edge_factor << self.scale

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:  # type: ignore[override]
        """float32, or None when unweighted."""
        return np.dtype(np.float32) if self.weighted else None

    @property
    def id_range(self) -> tuple[int, int]:  # type: ignore[override]
        """Vertices are 0 to ``2**scale - 1``."""
        return 0, self.vertices

    def units(self, edges_per_unit: int) -> list[Unit]:
        """Split the tuples into units of ``edges_per_unit``, the last one shorter."""
        if edges_per_unit < 1:
            raise UsageError(f"edges_per_unit is {edges_per_unit}: give at least 1")
        return units_of(ranges(0, self.edges, edges_per_unit))

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield tuples ``unit.start`` to ``unit.stop`` in blocks, made by the calling thread.

        One thread only: whoever reads several units at once has the cores busy already.
        """
        if block_edges < 1:
            raise UsageError(f"block_edges is {block_edges}: give at least 1")
        self._check_range(unit.start, unit.stop)
        for start in range(unit.start, unit.stop, block_edges):
            count = min(block_edges, unit.stop - start)
            source, target = np.empty(count, np.int64), np.empty(count, np.int64)
            weight = np.empty(count, np.float32) if self.weighted else None
            self.generate_into(start, source, target, weight)
            yield EdgeBlock(source, target, weight)

    def identity(self) -> str | None:
        """The generator's parameters."""
        return repr(self)

    def describe(self) -> dict[str, Any]:
        """Return the generator's parameters, JSON-able."""
        return {
            "format": "kronecker",
            "scale": self.scale,
            "edge_factor": self.edge_factor,
            "seeds": list(self.seeds),
            "weighted": self.weighted,
        }

    def block(
        self, start: int, stop: int, *, threads: int | None = None
    ) -> tuple[IntArray, IntArray, Float32Array]:
        """Make tuples ``start`` to ``stop - 1``.

        ``source`` and ``target`` are int64, ``weight`` float32 in [0, 1], all in host memory. None
        as ``threads``: one for every core that this process may use.
        """
        self._check_range(start, stop)
        count = stop - start
        source, target = np.empty(count, np.int64), np.empty(count, np.int64)
        weight = np.empty(count, np.float32)

        def fill(low: int, high: int) -> None:
            self.generate_into(start + low, source[low:high], target[low:high], weight[low:high])

        in_ranges(min(_checked(threads), count // EDGES_PER_THREAD), count, fill)
        return source, target, weight

    def generate_into(
        self, start: int, source: AnyArray, target: AnyArray, weight: Float32Array | None = None
    ) -> None:
        """Fill the caller's arrays with the tuples from ``start`` on.

        Serial and without the GIL: call it from as many threads as you like.

        ``source`` and ``target`` are int64, uint64 or (for ``scale`` <= 32) uint32 (m,),
        ``weight`` float32 (m,), all contiguous; None costs nothing. In host memory, or CuPy arrays:
        then the device makes the very same tuples, and the call does not wait for it.
        """
        self._check_range(start, start + len(source))
        if len(target) != len(source) or (weight is not None and len(weight) != len(source)):
            raise UsageError("source, target and weight must have one length")
        if min(source.dtype.itemsize, target.dtype.itemsize) < 8 and self.scale > 32:
            raise UsageError(f"ids of scale {self.scale} need 64-bit arrays")
        seed, scramble = seed_arrays(self.seeds)
        # Python's integer: one specialisation, whatever kind comes.
        given = int(start), self.scale, seed, edge_powers(), scramble
        if hasattr(source, "__cuda_array_interface__"):
            cuda_kronecker.generate_into(*given, source, target, weight)
        else:
            scratch = np.empty(SCRATCH_WORDS, np.uint64)
            generate_into(*given, scratch, source, target, weight)

    def search_keys(
        self, count: int = 64, *, degree: Degree | None = None, threads: int | None = None
    ) -> IntArray:
        """Choose Graph500's search keys: distinct vertices that some non-loop edge meets.

        As in the reference, the search gives up after ``2**scale`` tries: from then on every
        draw is taken as it comes. A graph with fewer usable vertices than ``count`` therefore
        still gets ``count`` keys, the last of which may repeat or be isolated.

        Parameters
        ----------
        count
            Number of keys.
        degree
            Which vertices are not isolated once self-loops are gone: an array over all
            vertices, or a function of an int64 array of vertices; non-zero means not isolated.
            None: generate all edges once and look (memory independent of the scale).
        threads
            For that pass; None: one for every core that this process may use.

        Returns
        -------
        int64 (count,)
        """
        return choose_keys(self, count, degree, _checked(threads))

    def _check_range(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.edges:
            raise UsageError(f"no edges {start} to {stop}: the graph has {self.edges}")


def _integer(name: str, value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise UsageError(f"{name}: {value!r} is not an integer") from None


def _checked(threads: int | None) -> int:
    """Threads that were asked for, or all cores."""
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}: give at least 1")
    return threads or cores()
