"""What Dask's scheduler loads before it starts: it forgets spans of tasks that are forgotten.

Dask keeps a span for each burst of tasks, and with it their groups, as long as the scheduler runs.
A job has some twenty bursts, and each takes some kilobytes.
"""

from __future__ import annotations

from typing import Any

from tornado.ioloop import PeriodicCallback

EVERY_S = 10.0
_DEFAULT = ("default",)
"""Name of the spans that nobody has named."""


def dask_setup(scheduler: Any) -> None:
    """Begin to forget spans."""
    spans = scheduler.extensions["spans"]
    known = spans.heartbeat

    def heartbeat(worker: Any, metrics: dict[tuple[Any, ...], float]) -> None:
        """Leave out what a worker says of spans that are forgotten: Dask would close it."""
        known(worker, {key: value for key, value in metrics.items() if key[1] in spans.spans})

    spans.heartbeat = heartbeat
    # Started with the scheduler's own.
    forget = PeriodicCallback(lambda: forget_spans(spans), EVERY_S * 1000)
    scheduler.periodic_callbacks["ooc-graph-spans"] = forget


def forget_spans(extension: Any) -> None:
    """Forget spans without a name whose tasks are forgotten."""
    unnamed = extension.spans_search_by_name[_DEFAULT]
    for span in [span for span in unnamed if _is_over(span)]:
        del extension.spans[span.id]
        for spans in (unnamed, extension.root_spans, extension.spans_search_by_tag[_DEFAULT[0]]):
            spans.remove(span)


def _is_over(span: Any) -> bool:
    return not any(count for state, count in span.states.items() if state != "forgotten")
