"""What Dask's scheduler loads before it starts, so that jobs leave no memory there.

Dask makes a span for each burst of tasks. The scheduler keeps each with its groups of tasks, and
workers keep figures for each, as long as they run. A job has some twenty bursts. So there is one
span for all tasks that nobody has named. The scheduler also keeps a topic of events for each client
that there ever was, and the C library keeps what is freed. Python looks through all objects only
when a quarter of them is new: until then a scheduler keeps the garbage of hundreds of jobs.
"""

from __future__ import annotations

from typing import Any

from tornado.ioloop import PeriodicCallback

from ooc_graph.runtime.leftovers import clear_leftovers
from ooc_graph.runtime.machine import give_back_freed_memory

EVERY_S = 10.0
_DEFAULT = ("default",)
"""Name of the spans that nobody has named."""


def dask_setup(scheduler: Any) -> None:
    """Have one unnamed span, and begin to forget what is over."""
    spans = scheduler.extensions["spans"]
    spans._ensure_default_span = lambda: _unnamed(spans)

    def forget() -> None:
        forget_groups(spans)
        forget_topics(scheduler)
        if not any(worker.processing for worker in scheduler.workers.values()):
            clear_leftovers()
        give_back_freed_memory()

    # Started with the scheduler's own.
    scheduler.periodic_callbacks["ooc-graph-leftovers"] = PeriodicCallback(forget, EVERY_S * 1000)


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


def forget_topics(scheduler: Any) -> None:
    """Forget topics of events that Dask has emptied, since their clients are gone."""
    topics = scheduler._broker._topics
    for name in [name for name, topic in topics.items() if not (topic.events or topic.subscribers)]:
        del topics[name]


def _is_over(group: Any) -> bool:
    return not any(count for state, count in group.states.items() if state != "forgotten")
