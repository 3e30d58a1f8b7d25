"""One search from several vertices: to each vertex the path from the nearest of them.

It is put together of a search from each, so that it is the same wherever each of them is done. Of
seeds that are equally near the smallest id counts. The vertices that lie nearest to a seed hang
together in its tree: whatever seed is nearer to a vertex's parent, or as near with a smaller id,
is so to the vertex. Rounded sums may be equal though they differ at the parent. So with floats the
nearest seed is the one that a vertex's parents lead to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.late import columns_into, require_columns, require_no_store
from ooc_graph.answers.narrow import Narrow
from ooc_graph.answers.result import Result, TreeResult
from ooc_graph.answers.scatter import unreached
from ooc_graph.answers.within import Within, is_reached
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.names import NEAREST, ORDER_OF, PARENT, VERTEX
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.single import search
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import measure_dtype, tree_specs
from ooc_graph.types import AnyArray, IntArray, NoProgress, Progress


def search_from_seeds(
    graph: Graph,
    kernel: str,
    seeds: IntArray,
    *,
    workplace: Workplace,
    progress: Progress,
    out: Path | None = None,
    into: Mapping[str, AnyArray] | None = None,
    overwrite: bool = False,
    **how: Any,
) -> TreeResult:
    """Search from all seeds, original ids of the graph, and give one answer, or write it.

    Errors are those of `ooc_graph.search.single.search`.
    """
    graph.require(ORDER_OF[kernel])
    if into is not None:
        require_no_store(into, out)
        require_columns(into, tree_specs(graph, kernel))
    if out is not None:
        refuse_output(out, "result", overwrite)
    within: Within | None = how.pop("within", None)
    # Targets come to a limit that is known when all searches have been done.
    each = None if within is None else replace(within, targets=None)
    nearest, spent, elapsed_s = _Nearest(graph, kernel), Counter[str](), 0.0
    said = progress
    with progress.stage(f"{kernel} from all sources", len(seeds), "searches") as stage:
        for seed in np.sort(seeds).tolist():
            given = {"workplace": workplace, "progress": said, "within": each, **how}
            found: Any = search(graph, kernel, seed, **given)
            nearest.take(seed, found)
            spent.update(found.seconds)
            elapsed_s += found.elapsed_s
            # What is noted of the first search holds for all.
            said = NoProgress()
            stage.advance(1)
    nearest.follow(found.vertex)
    limit = None if within is None else nearest.cut(within)
    columns = {VERTEX: found.vertex, **nearest.columns}
    facts = {"root": int(seeds.min()), "sources": np.sort(seeds).tolist(), "limit": limit}
    info = replace(found.info, seconds=dict(spent))
    kind: Any = ALGORITHMS[kernel].result
    if out is None:
        sources = tuple(facts["sources"])
        answer: TreeResult = kind(facts["root"], elapsed_s, columns, info, limit, sources)
        return answer if into is None else replace(answer, columns=columns_into(columns, into))
    _write(graph, kernel, columns, facts, out, overwrite)
    written: Any = Result.open(out)
    return replace(written, elapsed_s=elapsed_s, info=info)  # type: ignore[no-any-return]


class _Nearest:
    """The nearest of the seeds that were searched from, by vertex."""

    def __init__(self, graph: Graph, kernel: str) -> None:
        self.measure: str = ALGORITHMS[kernel].result.measure
        dtype = measure_dtype(graph, kernel)
        self.far = unreached(kernel, dtype)
        self.columns = {
            PARENT: np.full(graph.vertices, -1, np.int64),
            self.measure: np.full(graph.vertices, self.far, dtype),
            NEAREST: np.full(graph.vertices, -1, np.int64),
        }

    def take(self, seed: int, found: Any) -> None:
        """Take what a seed with a larger id than all before is nearer to."""
        parent, measure = found.parent, found.read(self.measure)
        best = self.columns[self.measure]
        nearer = (parent >= 0) & ((self.columns[NEAREST] < 0) | (measure < best))
        np.copyto(best, measure, where=nearer)
        np.copyto(self.columns[PARENT], parent, where=nearer)
        self.columns[NEAREST][nearer] = seed

    def follow(self, vertex: IntArray) -> None:
        """Have each vertex be nearest to the seed that its parents lead to, if sums are rounded."""
        parent, nearest = self.columns[PARENT], self.columns[NEAREST]
        if self.columns[self.measure].dtype.kind != "f":
            return
        reached = parent >= 0
        above = np.arange(len(vertex))
        above[reached] = np.searchsorted(vertex, parent[reached])
        # Each step doubles how far it looks; seeds are their own parents.
        while not np.array_equal(further := above[above], above):
            above = further
        nearest[reached] = vertex[above[reached]]

    def cut(self, within: Within) -> float | None:
        """Leave out what is beyond the limit; gives the limit."""
        measure = self.columns[self.measure]
        targets = np.empty(0, np.int64) if within.targets is None else within.targets
        limit: float | None = within.limit_of(measure[targets])
        if limit is not None:
            beyond = is_reached(measure) & (measure > limit)
            for name, far in ((PARENT, -1), (self.measure, self.far), (NEAREST, -1)):
                self.columns[name][beyond] = far
        return limit


def _write(
    graph: Graph,
    kernel: str,
    columns: dict[str, AnyArray],
    facts: dict[str, Any],
    out: Path,
    overwrite: bool,
) -> None:
    """Write the columns, and what is stored with them, as a result's store."""
    dtypes = {name: column.dtype for name, column in columns.items()}
    far = unreached(kernel, dtypes[ALGORITHMS[kernel].result.measure])
    attributes = {"kernel": kernel, "graph_sha256": graph.content_sha256}
    attributes |= {"unreached": "+inf" if far == np.inf else far}
    attributes |= {name: fact for name, fact in facts.items() if fact is not None}
    with partial_store(out, "result", overwrite=overwrite) as store:
        specs, entries = Narrow(columns, dtypes, None).write(store.folder)
        store.commit("result", attributes, tuple(specs), tuple(entries))
