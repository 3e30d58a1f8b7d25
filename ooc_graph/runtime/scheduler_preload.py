"""What Dask's scheduler loads before it starts: it forgets spans of tasks that are long forgotten.

Dask keeps a span for each burst of tasks, and with it their groups, as long as the scheduler runs.
A job has some twenty bursts, and each takes some kilobytes.
"""

from __future__ import annotations

import time
from typing import Any

from tornado.ioloop import PeriodicCallback

KEPT_S, EVERY_S = 60.0, 10.0
"""How long spans stay, as workers still report to them, and how often they are looked at."""
_DEFAULT = ("default",)
"""Name of the spans that nobody has named, and so nobody asks for."""


def dask_setup(scheduler: Any) -> None:
    """Begin to forget spans."""
    spans = scheduler.extensions["spans"]
    forget = PeriodicCallback(lambda: forget_spans(spans, time.time()), EVERY_S * 1000)
    # Started with the scheduler's own.
    scheduler.periodic_callbacks["ooc-graph-spans"] = forget


def forget_spans(extension: Any, now: float) -> None:
    """Forget spans without a name whose tasks are forgotten; ``now`` is in seconds."""
    unnamed = extension.spans_search_by_name[_DEFAULT]
    for span in [span for span in unnamed if _is_over(span, now)]:
        del extension.spans[span.id]
        for spans in (unnamed, extension.root_spans, extension.spans_search_by_tag[_DEFAULT[0]]):
            spans.remove(span)


def _is_over(span: Any, now: float) -> bool:
    left = sum(count for state, count in span.states.items() if state != "forgotten")
    return not left and bool(span.stop + KEPT_S < now)
