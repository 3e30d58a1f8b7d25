"""Progress of searches that read a store: what they say of the disk reaches who asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from ooc_graph.memory.watch import STRETCH_S, Watch, watched_by

if TYPE_CHECKING:
    from ooc_graph.session.place import Place
    from ooc_graph.types import Progress

# Of searches in this process: the graph's identity, and what hears of them; the last one does.
_heard: list[tuple[str, Watch]] = []


@contextmanager
def told(identity: str, what: str, place: Place, progress: Progress) -> Iterator[None]:
    """Tell progress how searches of a graph read its store, while they are carried out at a place.

    A search in this process tells it after 5 seconds of reading, 10, 20 and so on; what workers
    tell is passed on no more often, of all together.

    Parameters
    ----------
    identity
        Of the graph.
    what
        What searches; begins every line.
    """

    def note(text: str) -> None:
        progress.note(f"{what}: {text}")

    if place.client is not None:
        with _told_by_workers(identity, place.client, AtGrowingIntervals(note)):
            yield
        return
    entry = identity, Watch(note)
    _heard.append(entry)
    try:
        yield
    finally:
        _heard.remove(entry)


@contextmanager
def _told_by_workers(identity: str, client: Any, note: Callable[[str], None]) -> Iterator[None]:
    from ooc_graph.errors import ClusterLostError  # noqa: PLC0415
    from ooc_graph.exchange.cluster import talking_to  # noqa: PLC0415 (imports distributed)

    def hear(event: tuple[float, str]) -> None:
        note(event[1])

    with talking_to(client):
        client.subscribe_topic(_topic(identity), hear)
    try:
        yield
    finally:
        # Another search of the graph by this client may have ended it.
        with suppress(ClusterLostError, ValueError), talking_to(client):
            client.unsubscribe_topic(_topic(identity))


@contextmanager
def watched(identity: str, worker: Any) -> Iterator[None]:
    """Have the searches of a graph that this thread makes watched, if anybody hears of them.

    Parameters
    ----------
    identity
        Of the graph.
    worker
        The Dask worker whose task this is, or None.
    """
    with watched_by(_watch_of(identity, worker)):
        yield


def _watch_of(identity: str, worker: Any) -> Watch | None:
    if worker is not None:
        return Watch(lambda text: worker.log_event(_topic(identity), f"{worker.name}: {text}"))
    return next((watch for heard, watch in reversed(_heard) if heard == identity), None)


def _topic(identity: str) -> str:
    return f"ooc-graph-reading-{identity}"


class AtGrowingIntervals:
    """Passes lines on: the first, and others after 5 seconds and more, twice as many each time.

    Parameters
    ----------
    note
        Takes a line.
    clock
        Seconds, from any beginning.
    """

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._note, self._clock = note, clock
        self._interval_s = STRETCH_S
        self._due_s: float | None = None

    def __call__(self, text: str) -> None:
        """Pass a line on, or leave it out."""
        now_s = self._clock()
        if self._due_s is not None and now_s < self._due_s:
            return
        self._due_s = now_s + self._interval_s
        self._interval_s *= 2
        self._note(text)
