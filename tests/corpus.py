"""Stores and answers whose bytes must never change, in every way that they can be made.

``python -m tests.corpus`` records their hashes in `corpus.json`. That is right only if the format
of stores, or the rule that chooses among equal parents, is changed on purpose.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import ooc_graph as og
from ooc_graph.strategies.ranks import STATE_BYTES
from tests.command_line import listing
from tests.local_ranks import by_ranks

RECORDED = Path(__file__).with_name("corpus.json")
SCALE = 17
# Of searches that leave arcs in the store; `test_corpus` checks that they do.
ON_DISK = {"bfs": 20_980_000, "sssp": 24_400_000, "apsp": 100_000_000}
# Of two workers together, for ranks that leave arcs in the store.
RANKS_ON_DISK = {"bfs": 46_000_000, "sssp": 46_000_000}
CLUSTER = "workers"
BY_RANKS_ON_DISK = f"{CLUSTER} as ranks on disk"
BY_LOCAL_RANKS = "local ranks"
TIMED = ".json"


def _random(seed: int) -> Any:
    # Not a Generator: only these numbers stay the same for ever.
    return np.random.RandomState(seed)


def _roads() -> dict[str, Any]:
    """A grid of 60 x 50 crossings with integer lengths, and ids beyond 2^32."""
    ids = (np.arange(3000, dtype=np.int64) * 7919 + (1 << 33)).reshape(60, 50)
    ends = [(ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])]
    source = np.concatenate([a.ravel() for a, _ in ends])
    target = np.concatenate([b.ravel() for _, b in ends])
    weight = _random(1).randint(0, 1000, source.size).astype(np.int64)
    return {"source": (source, target, weight), "directed": False}


def _signed() -> dict[str, Any]:
    """A directed graph with weights below zero and no negative cycle, some arcs twice, loops."""
    draw = _random(2)
    source, target = draw.randint(0, 500, (2, 4000))
    height = draw.randint(0, 100, 500)
    weight = height[target] - height[source] + draw.randint(0, 30, 4000)
    loops = source == target
    weight[loops] = abs(weight[loops])
    return {"source": (source, target, weight), "directed": True}


def _dense() -> dict[str, Any]:
    """So dense that all pairs are found by the matrix."""
    draw = _random(3)
    source, target = draw.randint(0, 96, (2, 8000))
    return {"source": (source, target, draw.random_sample(8000)), "directed": True}


def _kronecker(scale: int, **options: Any) -> dict[str, Any]:
    return {"source": og.Kronecker(scale, **options)}


EDGES: dict[str, Callable[[], dict[str, Any]]] = {
    "kronecker": lambda: _kronecker(SCALE),
    "unweighted": lambda: _kronecker(13, weighted=False),
    "roads": _roads,
    "signed": _signed,
    "dense": _dense,
}
FORMS: dict[str, dict[str, Any]] = {
    "": {"shards": 4},
    ", hub rows": {"shards": 2, "rows": "hub"},
    ", light rows": {"shards": 1, "rows": "light"},
    ", compressed": {"shards": 4, "compress": True},
}


def store_names() -> list[str]:
    """Every graph in every form that it can have."""
    unweighted = {"unweighted, light rows"}
    return [name + form for name in EDGES for form in FORMS if name + form not in unweighted]


class Corpus:
    """Graphs in a folder, built when they are first asked for."""

    def __init__(self, folder: Path, client: Callable[[], Any]) -> None:
        self.folder, self._client = folder, client
        self.graph, self.held = cache(self._graph), cache(self._held)

    def _graph(self, name: str) -> og.Graph:
        edges, _, form = name.partition(",")
        options = {**EDGES[edges](), **FORMS[f",{form}" if form else ""]}
        return og.build(
            options.pop("source"), self.path(name), device="cpu", client=False, **options
        )

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.zarr"

    def _held(self, name: str) -> og.Graph:
        """The graph built in memory."""
        options = EDGES[name]()
        source = options.pop("source")
        return og.from_edges(*(source if isinstance(source, tuple) else (source,)), **options)

    def sources(self, name: str, count: int) -> list[int]:
        """Vertices with arcs, the first the one with most."""
        ids = self.graph(name).original_of()
        return [int(each) for each in ids[np.linspace(0, ids.size - 1, count).astype(int)]]

    def store(self, name: str) -> str:
        self.graph(name)
        return _of_files(self.path(name))

    def answer(self, name: str, kernel: str, how: str) -> str:
        """Digest of an answer, found in one way."""
        options: dict[str, Any] = {"device": "cpu", **WAYS[how]}
        graph = self.held(name) if how == "held" else self.graph(name)
        if how == "on disk":
            options["memory_limit"] = ON_DISK[kernel]
        options["client"] = self._client() if CLUSTER in how else False
        sources = self.sources(name, 70)
        if how == BY_LOCAL_RANKS:
            roots = [()] if kernel == "components" else [(sources[-1],), (sources[0],)]
            return _of(by_ranks(graph, kernel, *root) for root in roots)
        search = partial(_KERNELS[kernel], graph, sources, **options)
        if how != BY_RANKS_ON_DISK:
            return _of(search())
        # Rows this small would have room in memory.
        with patch.dict(STATE_BYTES, dict.fromkeys(RANKS_ON_DISK, 1 << 20)):
            return _of(search(memory_limit=RANKS_ON_DISK[kernel]))

    def stored_answer(self, name: str, kernel: str) -> str:
        """Digest of the files of an answer in a store."""
        out = self.folder / f"{kernel} of {name}.zarr"
        graph, sources = self.graph(name), self.sources(name, 70)
        options = {"device": "cpu", "client": False, "overwrite": True}
        _of(_KERNELS[kernel](graph, sources, out=out, **options))
        return _of_files(out)


# Options other than the device; `Corpus.answer` adds some.
WAYS: dict[str, dict[str, Any]] = {
    "memory": {},
    "held": {},
    "on disk": {},
    "edges": {"method": "edges"},
    BY_LOCAL_RANKS: {},
    CLUSTER: {},
    f"{CLUSTER} as ranks": {"exchange": "scheduler"},
    BY_RANKS_ON_DISK: {"exchange": "scheduler"},
}


def ways(name: str, kernel: str) -> list[str]:
    """Ways in which an answer can be found; the first is recorded."""
    plain = "," not in name
    found = ["memory"]
    if kernel in ("bfs", "sssp", "components"):
        found += [BY_LOCAL_RANKS, f"{CLUSTER} as ranks"]
    if kernel in ("bfs", "sssp"):
        found += ["edges", BY_RANKS_ON_DISK]
    if plain:
        found += ["held", CLUSTER]
    if name.startswith("kronecker") and kernel in ON_DISK:
        found += ["on disk"]
    return found


def is_slow(name: str, way: str) -> bool:
    """Whether there are many supersteps, and one graph in that way will do for most runs."""
    return way == BY_RANKS_ON_DISK and not name.startswith("kronecker")


def answer_names() -> Iterator[tuple[str, str]]:
    """Graph and kernel."""
    for name in store_names():
        kernels = []
        if "light" not in name:
            kernels += ["bfs", "components", "levels"]
        if "hub" not in name and "unweighted" not in name:
            kernels += ["apsp", "sums", *(["sssp"] if "signed" not in name else [])]
            kernels += ["matrix"] if name.startswith("dense") else []
        yield from ((name, kernel) for kernel in kernels)


Results = Iterator[og.Result]


def _bfs(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    return (og.bfs(graph, source, **options) for source in (sources[-1], sources[0]))


def _sssp(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    return (og.sssp(graph, source, **options) for source in (sources[-1], sources[0]))


def _components(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    del sources
    yield og.components(graph, **options)


def _levels(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    yield og.multi_source_bfs(graph, sources, **options)


def _apsp(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    yield og.johnson(graph, sources[:12], parents=True, **options)


def _sums(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    yield og.johnson(graph, sources, reduce="eccentricity", **options)


def _matrix(graph: og.Graph, sources: list[int], **options: Any) -> Results:
    del sources
    yield og.johnson(graph, **options)


_KERNELS: dict[str, Callable[..., Results]] = {
    "bfs": _bfs,
    "sssp": _sssp,
    "components": _components,
    "levels": _levels,
    "apsp": _apsp,
    "sums": _sums,
    "matrix": _matrix,
}


def _of(results: Results) -> str:
    """Of all columns; each answer is read before the next is found, which may replace its store."""
    digest = hashlib.sha256()
    for found in results:
        for name in found.names:
            column = np.ascontiguousarray(found.read(name))
            digest.update(f"{name} {column.dtype} {column.shape}".encode())
            digest.update(column.tobytes())
    return digest.hexdigest()


def _of_files(folder: Path) -> str:
    """Of all files but those with times and versions in them."""
    found = {name: text for name, text in listing(folder).items() if not name.endswith(TIMED)}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def recorded() -> dict[str, str]:
    """What was recorded."""
    found: dict[str, str] = json.loads(RECORDED.read_text())
    return found


def record() -> None:
    """Write the hashes of today's stores and answers."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), lambda: None)
        for name in store_names():
            found[f"store {name}"] = corpus.store(name)
        for name, kernel in answer_names():
            found[f"{kernel} of {name}"] = corpus.answer(name, kernel, "memory")
            if "," not in name and kernel != "matrix":
                found[f"stored {kernel} of {name}"] = corpus.stored_answer(name, kernel)
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(found)} hashes\n")


if __name__ == "__main__":
    record()
