"""Answers that searches left on workers, as tasks there are given them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ooc_graph.answers.late import late_columns
from ooc_graph.answers.result import Result
from ooc_graph.answers.unread import Kept, Unread
from ooc_graph.shards.workforce import Workforce


def left_by(client: Any, answer: object) -> Unread | None:
    """Columns of an answer that are on workers of a client; None if it is another answer."""
    unread = answer.unread if isinstance(answer, Result) else None
    return unread if unread is not None and unread.is_left_by(client) else None


def worker_of(client: Any, answer: object) -> str:
    """Address of the worker that has an answer, or its first part; empty if none of this client."""
    unread = left_by(client, answer)
    there = () if unread is None else unread.there
    return there[0][1] if there else ""


def for_task(client: Any, answer: Any) -> Any:
    """What a task of a client is given of an answer, for `in_task`.

    One on workers is the answer without columns, what makes these, and Dask's futures. Dask has the
    task done where one of them is, or elsewhere while those workers are paused.
    """
    unread = left_by(client, answer)
    if unread is not None and (there := unread.there):
        return replace(answer, columns={}), unread.kept, [future for future, _ in there]
    if isinstance(answer, Result) and (unread := answer.unread) is not None:
        # On a worker of another cluster.
        unread.bring()
    return answer


def in_task(given: Result | tuple[Result, Kept, list[Any]]) -> Result:
    """The answer of which a task was given this, with Dask's futures as what they stand for."""
    if isinstance(given, Result):
        return given
    shell, kept, parts = given
    # Columns of its own: what is made of them goes with the task.
    return replace(shell, columns=late_columns(kept.narrow(parts)))


def watched(workforce: Workforce, client: Any, answers: Sequence[object]) -> Workforce:
    """A workforce whose check also raises ClusterLostError if a worker with an answer is lost.

    Dask would wait for such a worker without end.
    """
    unread = [one for answer in answers if (one := left_by(client, answer)) is not None]

    def check() -> None:
        workforce.check()
        for one in unread:
            one.require_there()

    return replace(workforce, check=check)
