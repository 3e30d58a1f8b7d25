"""How long this package waits for a Dask cluster.

Two settings in Dask's configuration say so: ``ooc-graph.answer-timeout`` (10 s), for one
question, and ``ooc-graph.patience`` (60 s), for a worker that can do the work.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

import dask
from dask.utils import parse_timedelta

from ooc_graph.errors import UsageError

Made = TypeVar("Made", bound=Any)


def answer_timeout_s() -> float:
    """Longest wait for the answer to one question, in seconds."""
    return _seconds("ooc-graph.answer-timeout", "10s", 0.1)


def patience_s() -> float:
    """Longest wait for a worker that can do the work, in seconds."""
    return _seconds("ooc-graph.patience", "60s", 0.0)


def _seconds(name: str, default: str, least: float) -> float:
    given = dask.config.get(name, default)
    # Dask's parser raises errors of many kinds.
    with suppress(Exception):
        if least <= (seconds := float(parse_timedelta(given))) < float("inf"):
            return seconds
    raise UsageError(
        f"{name} is {given!r} in Dask's configuration: give a time from {least:g} s on, such as "
        f"{default!r}"
    )


def within(limit_s: float, make: Callable[[], Made]) -> Made:
    """What a call makes, a client or a cluster; Dask may wait for them without limit.

    TimeoutError after ``limit_s`` seconds: the call continues in a thread, and what it makes is
    closed.
    """
    promised: Future[Made] = Future()

    def run() -> None:
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001 -- to whoever waits
            with suppress(InvalidStateError):
                promised.set_exception(error)
            return
        try:
            promised.set_result(made)
        except InvalidStateError:
            made.close()

    Thread(target=run, daemon=True).start()
    try:
        return promised.result(limit_s)
    except BaseException:
        promised.cancel()
        raise
