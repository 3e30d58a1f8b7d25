"""Events of runs: lines of JSON in the folder of a run, and records of Python's `logging`.

Each event is a record of the logger ``ooc_graph.jobs``; one that is a failure is an error.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ooc_graph.types import NoProgress

LOG = logging.getLogger("ooc_graph.jobs")
# Without a handler of the application, Python would write errors to stderr, which has them already.
LOG.addHandler(logging.NullHandler())
FAILED, STOPPED = "failed", "stopped"
"""Events that end a run, or a stage of it, before it is done: by an error, or by a signal."""


def line_of(facts: Mapping[str, Any]) -> str:
    """A line of JSON."""
    return json.dumps(facts)


def now() -> str:
    """The time as events have it: UTC, to the millisecond."""
    return _iso(datetime.now(UTC))


def log(job: str, event: Mapping[str, Any]) -> None:
    """Pass an event on to `logging`; the record has it and its job as ``event``."""
    level = logging.ERROR if event["event"] == FAILED else logging.INFO
    words = [event[key] for key in ("stage", "event", "error") if key in event]
    if "units" in event:
        words.append(f"units {', '.join(event['units'])}")
    LOG.log(level, ": ".join((job, *words)), extra={"event": {"job": job, **event}})


@contextmanager
def logged_as_json() -> Iterator[NoProgress]:
    """Context in which records of this package go to stderr as lines of JSON.

    Yields what shows no progress; its notes are such records, too.
    """
    logger, handler = logging.getLogger("ooc_graph"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield _Notes()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Notes(NoProgress):
    """Shows what is noted, as records."""

    def note(self, text: str) -> None:
        """Log a line."""
        LOG.info(text)


class _JsonLines(logging.Formatter):
    """A record as a line of JSON: ``time``, ``level``, ``message``, and what an event has."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": _iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return line_of(facts | getattr(record, "event", {}))


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
