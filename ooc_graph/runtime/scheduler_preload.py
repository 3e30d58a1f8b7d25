"""What Dask's scheduler loads before it starts: one span for all tasks that nobody has named.

Dask makes a span for each burst of tasks. The scheduler keeps each with its groups of tasks, and
workers keep figures for each, as long as they run. A job has some twenty bursts.
"""

from __future__ import annotations

from typing import Any

from tornado.ioloop import PeriodicCallback

EVERY_S = 10.0
_DEFAULT = ("default",)
"""Name of the spans that nobody has named."""


def dask_setup(scheduler: Any) -> None:
    """Have one unnamed span, and begin to forget its groups."""
    spans = scheduler.extensions["spans"]
    spans._ensure_default_span = lambda: _unnamed(spans)
    # Started with the scheduler's own.
    forget = PeriodicCallback(lambda: forget_groups(spans), EVERY_S * 1000)
    scheduler.periodic_callbacks["ooc-graph-spans"] = forget


def _unnamed(extension: Any) -> Any:
    # The first is never done with.
    found = extension.spans_search_by_name[_DEFAULT]
    return found[0] if found else extension._ensure_span(_DEFAULT, ("ooc-graph-unnamed",))


def forget_groups(extension: Any) -> None:
    """Forget groups of tasks in the unnamed span that are over, and what clients said of theirs."""
    for span in extension.spans_search_by_name[_DEFAULT]:
        span.groups -= {group for group in span.groups if _is_over(group)}
        span._metadata = None
        span._metadata_seen.clear()
        span._code.clear()


def _is_over(group: Any) -> bool:
    return not any(count for state, count in group.states.items() if state != "forgotten")
