"""What tasks that are over leave in the processes of a cluster."""

from __future__ import annotations

from dask.utils import key_split

from ooc_graph.garbage import collect_sparingly

_MOST_NAMES = 1000


def clear_leftovers() -> None:
    """Collect garbage, and forget names of tasks: Dask keeps those of the last 100,000.

    For schedulers and workers while they are idle.
    """
    if key_split.cache_info().currsize > _MOST_NAMES:
        key_split.cache_clear()
    collect_sparingly()
