"""Progress of searches that read a store: what they say of the disk reaches who asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from ooc_graph.forked import in_child
from ooc_graph.memory.io_stats import INTERVAL_S, SLOWER, Watch, watched_by

if TYPE_CHECKING:
    from distributed import Client

    from ooc_graph.types import Progress

# Of searches in this process: the graph's identity, and what reports them; of several the last.
_subscribers: list[tuple[str, Watch]] = []
# Of the graph that a worker of this process searched last. Its tasks may be shorter than what makes
# a line, so that all of them are watched together.
_of_worker: dict[tuple[str, str], Watch] = {}
in_child(_subscribers.clear)
in_child(_of_worker.clear)


@contextmanager
def reported(identity: str, what: str, client: Client | None, progress: Progress) -> Iterator[None]:
    """Report to ``progress`` how searches of a graph read its store, while they are carried out.

    A search in this process does so after 5 seconds of reading, 10, 20 and so on. Workers of
    ``client`` do every 5 seconds of reading; that is passed on at growing intervals, of all
    together. Each line begins with ``what`` searches.
    """

    def note(text: str) -> None:
        progress.note(f"{what}: {text}")

    if client is not None:
        with _reported_by_workers(identity, client, AtGrowingIntervals(note)):
            yield
        return
    entry = identity, Watch(note)
    _subscribers.append(entry)
    try:
        yield
    finally:
        _subscribers.remove(entry)


@contextmanager
def _reported_by_workers(identity: str, client: Any, note: Callable[[str], None]) -> Iterator[None]:
    from ooc_graph.errors import ClusterLostError  # noqa: PLC0415
    from ooc_graph.exchange.cluster import Cluster  # noqa: PLC0415 (imports distributed)

    def hear(event: tuple[float, str]) -> None:
        note(event[1])

    cluster = Cluster.of(client)
    with cluster.talking():
        client.subscribe_topic(_topic(identity), hear)
    try:
        yield
    finally:
        # Another search of the graph by this client may have ended it.
        with suppress(ClusterLostError, ValueError), cluster.talking():
            client.unsubscribe_topic(_topic(identity))


def watched(identity: str, worker: Any) -> AbstractContextManager[None]:
    """Have the searches of a graph that this thread makes watched, if anybody subscribed to them.

    ``worker`` is the Dask worker whose task this is, or None.
    """
    if worker is not None:
        key = identity, worker.address
        if key not in _of_worker:
            _of_worker.clear()
            topic, name = _topic(identity), worker.name
            _of_worker[key] = Watch(
                lambda text: worker.log_event(topic, f"worker {name}: {text}"), growth=1
            )
        return watched_by(_of_worker[key])
    watches = (watch for graph, watch in reversed(_subscribers) if graph == identity)
    return watched_by(next(watches, None))


def _topic(identity: str) -> str:
    return f"ooc-graph-reading-{identity}"


class AtGrowingIntervals:
    """Passes on the first line, and others after 5 seconds and more, twice as many each time.

    The first that says of a disk that it is slow is passed on at once.
    """

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._note, self._clock = note, clock
        self._interval_s = INTERVAL_S
        self._due_s: float | None = None
        self._has_said_slow = False

    def __call__(self, text: str) -> None:
        """Pass a line on, or leave it out."""
        now_s = self._clock()
        is_news = SLOWER in text and not self._has_said_slow
        if self._due_s is not None and now_s < self._due_s and not is_news:
            return
        self._has_said_slow = self._has_said_slow or is_news
        self._due_s = now_s + self._interval_s
        self._interval_s *= 2
        self._note(text)
