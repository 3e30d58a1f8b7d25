"""The Python API of validation: answers against the edges that they should follow from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ooc_graph.answers.result import PairsResult, Result, SsspResult
from ooc_graph.boundary import public
from ooc_graph.edges import open_source
from ooc_graph.errors import UsageError
from ooc_graph.runtime.validation import check
from ooc_graph.validate import Verdict


@public
def validate(result: Result | str | Path, edges: Any, **options: Any) -> Verdict:
    """Check an answer against the edges it should follow from.

    Trees are held against Graph500's rules; components against those of
    `ooc_graph.validate.components`.

    Parameters
    ----------
    result
        A result, or the path of a stored one.
    edges
        What `build` was given: a path, several, a `Kronecker`, arrays, a Dask collection.
    **options
        As for `build`: ``format``, ``directed``, ``weight``, …

    Returns
    -------
    Verdict
        With the vertices reached and the tuples between them.

    Raises
    ------
    ValidationFailedError
        Names the rule and the smallest vertex or edge that breaks it.
    """
    answer = result if isinstance(result, Result) else Result.open(result)
    if isinstance(answer, PairsResult):
        raise UsageError("distances of many sources cannot be validated: validate single searches")
    source = open_source(edges, **options)
    if isinstance(answer, SsspResult) and not source.weighted:
        raise UsageError("distances can only be checked against edges with weights")
    verdict = check(answer, source)
    verdict.raise_if_failed()
    return verdict
