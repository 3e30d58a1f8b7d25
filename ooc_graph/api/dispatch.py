"""What the public functions of one search have in common: their arguments, made into a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ooc_graph.answers.result import Result
from ooc_graph.answers.several import Answers
from ooc_graph.answers.within import Within
from ooc_graph.api.graphs import located
from ooc_graph.api.vertices import positions_of
from ooc_graph.errors import UsageError
from ooc_graph.model.request import ROWS
from ooc_graph.search.seeds import search_from_seeds
from ooc_graph.search.several import search_several
from ooc_graph.search.single import search
from ooc_graph.sinks.single import CUPY, NUMPY
from ooc_graph.types import AnyArray


def search_one(
    kernel: str,
    *,
    source: Any = None,
    sources: Any = None,
    exchange: str,
    method: str = ROWS,
    arrays: str = NUMPY,
    into: Mapping[str, AnyArray] | None = None,
    cutoff: float | None = None,
    targets: Any = None,
    overwrite: bool,
    **where: Any,
) -> Result | Answers[Any]:
    """Search as a public function is asked to, given all of its arguments by name."""
    if arrays == CUPY and where["client"] is None:
        where["client"] = False
    graph, options = located(**where)
    if into is not None and arrays != NUMPY:
        raise UsageError(f"into= takes arrays in host memory: leave arrays={arrays!r} out")
    options |= {"exchange": exchange, "method": method, "overwrite": overwrite}
    if cutoff is not None or targets is not None:
        if arrays != NUMPY:
            raise UsageError(f"cutoff= and targets=: leave arrays={arrays!r} out")
        aimed = None if targets is None else positions_of(graph, targets, "targets")
        options["within"] = Within(cutoff, aimed)
    if sources is not None:
        if source is not None or arrays != NUMPY:
            raise UsageError("sources=: one search from all of them; leave source= and arrays= out")
        positions_of(graph, sources)
        seeds = np.asarray(sources, np.int64)
        return search_from_seeds(graph, kernel, seeds, into=into, **options)
    if _is_list(source):
        if options["out"] is None or into is not None or arrays != NUMPY:
            raise UsageError(
                "several sources: give out=, a folder for a store of each, and neither into= nor "
                "arrays=; multi_source_bfs and johnson have levels and distances in memory"
            )
        positions_of(graph, source)
        return search_several(graph, kernel, np.asarray(source, np.int64), **options)
    options["arrays"] = arrays if into is None else into
    return search(graph, kernel, source, **options)


def _is_list(source: Any) -> bool:
    is_list = isinstance(source, np.ndarray | Sequence) and not isinstance(source, str | bytes)
    return is_list and getattr(source, "ndim", 1) > 0
