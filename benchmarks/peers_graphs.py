"""Graphs of the comparison: edges in memory as every library is given them, and sources.

Nothing of the package's build is used to read, deduplicate or count: the libraries get their edges
by this path and ours by its own, so that equal answers say something.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.graphs import ROAD_BAY, ROAD_NY, ROAD_ROME, read_columns
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ooc_graph import Kronecker, open_source
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.types import AnyArray, IntArray

_RANDOM_SEED = 20


@dataclass(frozen=True)
class Edges:
    """A simple graph on the vertices 0 … vertices - 1: no self-loops, the lightest of duplicates.

    Undirected edges stand here once, from the smaller end. They ascend.
    """

    vertices: int
    directed: bool
    u: IntArray
    v: IntArray
    w: AnyArray | None

    def both_ways(self) -> tuple[IntArray, IntArray, AnyArray | None]:
        """Arcs: as the edges where these are directed, else each edge in both directions."""
        if self.directed:
            return self.u, self.v, self.w
        u, v = np.concatenate([self.u, self.v]), np.concatenate([self.v, self.u])
        return u, v, None if self.w is None else np.concatenate([self.w, self.w])

    def lengths(self, u: IntArray, v: IntArray, *, weighted: bool) -> AnyArray:
        """Weights, or 1, of the edges from u to v as float64; NaN if there is none."""
        if not self.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        key, wanted = self.u * self.vertices + self.v, u * self.vertices + v
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        length = self.w[at].astype(np.float64) if weighted and self.w is not None else 1.0
        return np.where(key[at] == wanted, length, np.nan)

    def save(self, folder: Path) -> None:
        """Leave the edges in a folder, for another process."""
        (folder / "edges").write_bytes(pickle.dumps(self))

    @staticmethod
    def load(folder: Path) -> "Edges":
        """The edges that `save` left."""
        found: Edges = pickle.loads((folder / "edges").read_bytes())
        return found


@dataclass(frozen=True)
class Case:
    """A graph to be compared on."""

    name: str
    kind: str  # ``kronecker``, ``road``, ``social`` or ``p2p``
    source: EdgeSource  # what the package builds from
    edges: Edges  # the same graph for the others
    ids: IntArray  # original ids, ascending: vertex i here is ``ids[i]`` there
    # Input tuples at each vertex (of directed graphs: leading away), self-loops not counted.
    tuples: IntArray
    sources: IntArray  # vertices to search from

    def edges_within(self, reached: NDArray[np.bool_]) -> int:
        """Input tuples in what was reached: what TEPS counts (duplicates, not self-loops)."""
        total = int((self.tuples * reached).sum())
        return total if self.edges.directed else total // 2


class Named(NamedTuple):
    """A graph among the shared data."""

    name: str
    kind: str
    file: str


FACEBOOK = Named("ego-Facebook", "social", "snap/facebook_combined.txt.gz")
FILES = (
    Named("road NY", "road", ROAD_NY),
    Named("road BAY", "road", ROAD_BAY),
    Named("email-Enron", "social", "snap/email-Enron.txt.gz"),
    FACEBOOK,
    Named("p2p-31", "p2p", "libgrape-lite/p2p-31.e.gz"),
)
SMALL_FILES = (Named("road Rome", "road", ROAD_ROME), FACEBOOK)


def kronecker(scale: int, searches: int) -> Case:
    """Graph500's graph, with its search keys."""
    source = Kronecker(scale)
    u, v, w = source.block(0, source.edges)
    edges, tuples = _simple(u, v, w, source.vertices, directed=False)
    keys = source.search_keys(searches, degree=tuples)
    ids = np.arange(source.vertices)
    return Case(f"Kronecker {scale}", "kronecker", source, edges, ids, tuples, keys)


def from_file(named: Named, folder: Path, searches: int) -> Case:
    """A graph of the shared data, with sources drawn from its largest component."""
    # A network listed both ways is read as what it is, undirected.
    options = {} if named.kind == "road" else {"directed": False}
    source = open_source(folder / named.file, **options)
    u, v, w = read_columns(source)
    ids = _ids(source, u, v)
    places = np.searchsorted(ids, u), np.searchsorted(ids, v)
    edges, tuples = _simple(*places, w, len(ids), directed=source.directed)
    sources = _sources(edges, tuples, searches)
    return Case(named.name, named.kind, source, edges, ids, tuples, sources)


def _ids(source: EdgeSource, u: IntArray, v: IntArray) -> IntArray:
    """All original ids: those declared, else those listed or named by the edges."""
    if source.id_range is not None:
        first, count = source.id_range
        return np.arange(first, first + count)
    return np.unique(np.concatenate([u, v, *source.vertex_blocks()]))


def _simple(
    u: IntArray, v: IntArray, w: AnyArray | None, vertices: int, *, directed: bool
) -> tuple[Edges, IntArray]:
    """Edges without self-loops, the lightest of duplicates; tuples at each vertex before."""
    proper = u != v
    u, v, w = u[proper], v[proper], None if w is None else w[proper]
    tuples = np.bincount(u, minlength=vertices)
    if not directed:
        tuples += np.bincount(v, minlength=vertices)
        u, v = np.minimum(u, v), np.maximum(u, v)
    key = u * vertices + v
    if w is None:
        key = np.unique(key)
    else:
        order = np.argsort(key)
        key, w = key[order], w[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        key, w = key[first], np.minimum.reduceat(w, first)
    u, v = np.divmod(key, vertices)
    return Edges(vertices, directed, u, v, w), tuples


def _sources(edges: Edges, tuples: IntArray, searches: int) -> IntArray:
    """Vertices of the largest (strong) component that some arc leaves, drawn at random."""
    ones = np.ones(len(edges.u), np.int8)
    matrix = coo_array((ones, (edges.u, edges.v)), shape=(edges.vertices, edges.vertices))
    _, label = connected_components(matrix.tocsr(), directed=edges.directed, connection="strong")
    usable = np.flatnonzero((label == np.argmax(np.bincount(label))) & (tuples > 0))
    generator = np.random.default_rng(_RANDOM_SEED)
    return generator.choice(usable, min(searches, len(usable)), replace=False)
