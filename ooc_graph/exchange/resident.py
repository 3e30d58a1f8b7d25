"""Postboxes of open attempts, and what puts parcels into them, on a Dask worker."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from typing import cast

from distributed import Worker, WorkerPlugin

from ooc_graph.exchange.doors import Address, Door
from ooc_graph.exchange.links import Links
from ooc_graph.exchange.parcel import Kind, Parcel, Postbox, StaleParcelError
from ooc_graph.settings import patience_s

PLUGIN_NAME = "ooc-graph-exchange"
POST_OP = "ooc_graph_post"
WAITS_FOR_OP = "ooc_graph_waits_for"

KEPT = "kept"
STALE = "stale"

DONE = -2
"""Answer instead of a superstep: the ranks of the attempt have come to their end here."""
_MOST_DONE = 64
"""Attempts of which a worker knows that."""

UNMANNED = 5
"""Times the patience that a postbox waits for its task."""


class ExchangePlugin(WorkerPlugin):
    """Receives parcels for one worker; one object a worker, also if workers share a process.

    Methods run on the worker's event loop unless they say otherwise.
    """

    idempotent = True

    def __init__(self) -> None:
        self._boxes: dict[tuple[str, int], Postbox] = {}
        self._links: Links = {}  # with workers of the same host, that no attempt has
        self._done: deque[tuple[str, int]] = deque(maxlen=_MOST_DONE)

    def setup(self, worker: Worker) -> None:
        """Add the handlers that other workers call."""
        self._loop = asyncio.get_running_loop()
        self._shares_memory = worker.address.startswith("inproc:")
        worker.handlers[POST_OP] = self.post
        worker.handlers[WAITS_FOR_OP] = self.waits_for

    def teardown(self, worker: Worker) -> None:
        """Wake up what still runs when the worker closes."""
        worker.handlers.pop(POST_OP, None)
        worker.handlers.pop(WAITS_FOR_OP, None)
        for box in self._boxes.values():
            box.abort("the worker closes")
        for link in self._links.values():
            link.close()

    def open(self, run_id: str, attempt: int, senders: frozenset[int]) -> Address | None:
        """Make a postbox; those of earlier attempts of the run are closed.

        Returns the address of its door, if it has one.
        """
        for other, number in list(self._boxes):
            if other == run_id and number < attempt:
                self.close(other, number, f"attempt {attempt} began")
        door = Door.opened(self._links) if senders else None
        self._boxes[run_id, attempt] = Postbox(senders, door)
        # A worker that was frozen may be asked to open when nobody waits for it any more.
        self._loop.call_later(UNMANNED * patience_s(), self._close_unmanned, run_id, attempt)
        return None if door is None else door.address

    def _close_unmanned(self, run_id: str, attempt: int) -> None:
        box = self.box(run_id, attempt)
        if box is not None and not box.is_manned:
            self.close(run_id, attempt, "no task came for it")

    def box(self, run_id: str, attempt: int) -> Postbox | None:
        """Postbox of an open attempt, None if it is not open; from any thread."""
        return self._boxes.get((run_id, attempt))

    def close_soon(self, run_id: str, attempt: int, *, is_done: bool) -> None:
        """Have the event loop close the attempt, whose ranks may be done; from any thread."""
        if is_done:
            self._done.append((run_id, attempt))
        self._loop.call_soon_threadsafe(self.close, run_id, attempt, "its ranks ended here")

    def close(self, run_id: str, attempt: int, cause: str) -> bool:
        """Forget the attempt and its mail, and wake up what waits; whether a task was at it."""
        box = self._boxes.pop((run_id, attempt), None)
        if box is None:
            return False
        box.abort(cause)
        return box.is_manned

    async def post(self, parcel: Parcel | bytes) -> str:
        """Handler: take a parcel, or a pickled one; the answer comes once there is space for it."""
        if isinstance(parcel, bytes):
            # As Dask itself does with what workers of its cluster send.
            parcel = cast(Parcel, pickle.loads(parcel))  # noqa: S301
        elif self._shares_memory and parcel.kind is Kind.SHARE:
            # Nothing was serialized: these are the sender's arrays, which it may overwrite next.
            parcel = parcel.copied()
        box = self.box(parcel.run_id, parcel.attempt)
        if box is None:
            return STALE
        try:
            await box.put(parcel)
        except StaleParcelError:
            return STALE
        return KEPT

    async def waits_for(self, run_id: str, attempt: int, sender: int) -> int | None:
        """Handler: as of `Postbox`, for an attempt; or `DONE`; None if it is not open here."""
        if (run_id, attempt) in self._done:
            return DONE
        box = self.box(run_id, attempt)
        if box is None or box.aborted.done():
            return None
        return box.waits_for(sender)


async def install(dask_worker: Worker) -> ExchangePlugin:
    """Plugin of a worker, added if it is not there yet (new workers start without it)."""
    if PLUGIN_NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(ExchangePlugin(), name=PLUGIN_NAME, catch_errors=False)
    return cast(ExchangePlugin, dask_worker.plugins[PLUGIN_NAME])


async def open_attempt(
    run_id: str, attempt: int, senders: frozenset[int], dask_worker: Worker
) -> Address | None:
    """Ready a worker for an attempt; run by the client before it submits the tasks."""
    return (await install(dask_worker)).open(run_id, attempt, senders)


async def close_attempt(run_id: str, attempt: int, cause: str, dask_worker: Worker) -> bool:
    """End an attempt on a worker; whether its task is running. If not, it will not begin."""
    return (await install(dask_worker)).close(run_id, attempt, cause)


def find_resident(worker: Worker) -> ExchangePlugin | None:
    """Plugin of a worker, None if no attempt was opened since it started; from any thread."""
    return cast(ExchangePlugin | None, worker.plugins.get(PLUGIN_NAME))
