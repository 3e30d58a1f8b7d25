"""The Python API of validation: answers against edges as read, or against their graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from ooc_graph.answers.matrix import PairsResult
from ooc_graph.answers.pagerank import PagerankResult
from ooc_graph.answers.result import (
    Result,
    SsspResult,
    require_unlimited,
)
from ooc_graph.answers.several import Answers
from ooc_graph.api.graphs import located
from ooc_graph.boundary import public
from ooc_graph.edges import open_source
from ooc_graph.edges.options import EdgeOptions
from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.layout.kinds import kind_of
from ooc_graph.layout.stored import Stored
from ooc_graph.model.resources import CPU
from ooc_graph.remote.stores import local_path
from ooc_graph.runtime.stored_answers import check_answers
from ooc_graph.runtime.validation import check
from ooc_graph.shards.load import Graph
from ooc_graph.types import ProgressLike
from ooc_graph.validate import Verdict

if TYPE_CHECKING:
    from distributed import Client

Answer: TypeAlias = Result | str | Path


@overload
def validate(result: Answer, edges: Any, /, **options: Unpack[EdgeOptions]) -> Verdict: ...


@overload
def validate(
    graph: Graph | str | Path, answers: Answer | Sequence[Answer], /, **where: Any
) -> list[Verdict]: ...


@public
def validate(
    given: Any,
    against: Any,
    /,
    *,
    client: Client | Literal[False] | None = None,
    memory_limit: str | int | None = None,
    progress: ProgressLike = None,
    **options: Any,
) -> Verdict | list[Verdict]:
    """Check an answer against the edges it should follow from, or answers against their graph.

    Trees are held against Graph500's rules; components against those of
    `ooc_graph.validate.components`. ``validate(result, edges)`` reads the edges that the graph was
    built from, so that the build is checked, too. ``validate(graph, answers)`` reads the rows of
    the graph, as ``ooc-graph validate`` does, and takes PageRank, too: an iteration proves an upper
    bound on the distance of its scores from the true ranks, see `ooc_graph.validate.pagerank`.

    Parameters
    ----------
    given
        A result, or the path of a stored one; or a built graph, its path, or a graph in memory.
    against
        Of a result the edges, as `build` was given them: a path, several, a `Kronecker`, arrays, a
        Dask collection. Of a graph an answer or several: results of `bfs`, `sssp`, `components` and
        `pagerank`, and paths of stored ones. Columns may be on a device if this process reads them.
    client
        Dask client whose workers share the passes over the rows of a graph; one worker makes each
        pass. Workers read stored answers and those that searches left there, and are sent the
        others. None: the current client if there is one, otherwise this process; False: this
        process.
    memory_limit
        Bytes (or "4GiB") of host memory for all processes that read a graph; None: what is free, or
        what the workers have. Answers of a kernel are checked in as few passes as that allows.
    progress
        What shows the progress of the passes over a graph; see `bfs`.
    **options
        For edges, as for `build`: ``format``, ``directed``, ``weight``, …

    Returns
    -------
    Verdict or list of Verdict
        With the vertices reached and the tuples between them; one for each answer of a graph. Of
        PageRank also ``error_bound``, a proven upper bound on the L1 distance from the true ranks.

    Raises
    ------
    ValidationFailedError
        Names the rule and the smallest vertex or edge that breaks it, for the first such answer.
    InputError, MemoryBudgetError
        If an answer is damaged or of another graph; if the limit is too small for one answer.
    """
    is_graph = isinstance(given, Graph)
    if isinstance(given, (str, Path)):
        given = local_path(given)
        is_graph = Stored.open(given).manifest.kind == "graph"
    elif not isinstance(given, (Graph, Result)):
        kind = type(given).__name__
        raise UsageError(
            f"the first argument is a {kind}: give one result, or a graph and then its answers"
        )
    where = {"client": client, "memory_limit": memory_limit, "progress": progress}
    if not is_graph and any(value is not None and value is not False for value in where.values()):
        raise UsageError("client=, memory_limit= and progress= are for answers of a built graph")
    if is_graph and options:
        raise UsageError(f"{', '.join(options)}: options of edges, and a graph is given")
    if is_graph:
        return _on_graph(given, against, where)
    verdict = _on_edges(given, against, options)
    verdict.raise_if_failed()
    return verdict


def _on_graph(
    graph: Graph | str | Path, answers: Answer | Sequence[Answer], where: dict[str, Any]
) -> list[Verdict]:
    opened, chosen = located(graph=graph, out=None, device=CPU, **where)
    is_one = not isinstance(answers, (list, tuple, Answers))
    several: Any = [answers] if is_one else answers
    if wrong := [one for one in several if not isinstance(one, (Result, str, Path))]:
        kind = type(wrong[0]).__name__
        raise UsageError(f"answers of a graph are results or paths of stored ones, not {kind}")
    accepted = [one if isinstance(one, Result) else Path(one) for one in several]
    verdicts = check_answers(opened, accepted, chosen["workplace"], chosen["progress"])
    for answer, verdict in zip(several, verdicts, strict=True):
        try:
            verdict.raise_if_failed()
        except ValidationFailedError as error:
            if is_one:
                raise
            raise ValidationFailedError(f"{answer}: {error}") from None
    return verdicts


def _on_edges(result: Answer, edges: Any, options: dict[str, Any]) -> Verdict:
    answer = result if isinstance(result, Result) else Result.open(result)
    if isinstance(answer, PairsResult):
        raise UsageError(f"answers of {answer.kernel} cannot be validated: they have many sources")
    if isinstance(answer, PagerankResult):
        raise UsageError(
            "edges as read may have an arc twice, and PageRank counts it once: "
            "use validate(graph, answer)"
        )
    require_unlimited(answer, str(answer))
    is_path = isinstance(edges, (str, Path))
    if isinstance(edges, Graph) or (is_path and kind_of(Path(edges)) == "graph"):
        raise UsageError("answers are checked against a graph by validate(graph, answers)")
    source = open_source(edges, **options)
    if isinstance(answer, SsspResult) and not source.weighted:
        raise UsageError("distances can only be checked against edges with weights")
    return check(answer, source)
