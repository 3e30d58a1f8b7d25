"""Chunks of a task of many sources that are recorded while the rest of it is still searched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any

import numpy as np

from ooc_graph.forked import in_child
from ooc_graph.kernels.common.completion import OnDone, current_event
from ooc_graph.runtime.process import thread_count
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray


class _Unrecorded:
    """Sources of this process whose chunks wait to be recorded, or are just being."""

    def __init__(self) -> None:
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    def add(self, count: int) -> None:
        """Count some more, or with a negative number those that are done."""
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def wait_for(self, most: int) -> None:
        """Wait until there are no more than so many, or none."""
        with self._changed:
            self._changed.wait_for(lambda: self._count <= max(most, 0))


_unrecorded = _Unrecorded()


class Recording:
    """Records the chunks of a task, each as soon as all of its sources are found.

    A thread that searches by itself records the chunks that it completes before it continues, so
    that a run which is killed loses what each of them has, one batch. What searches for all
    threads, or on a device, hands chunks over to other threads, and continues while no more sources
    are found and not recorded than are searched together, with those that it continues with, in all
    tasks of the process. When the context ends nothing is written any more; what went wrong is
    raised there, as the search is only cancelled for it.

    ``write(rows, number)`` writes and records a chunk, counted from the first of the task; several
    threads call it. Chunks have ``length`` of the task's ``sources``. ``most`` of them may be found
    and not recorded, or searched from, except those of a chunk that has more; 0: threads record
    what they have found.
    """

    def __init__(
        self, write: Callable[[Any, int], None], sources: int, length: int, most: int
    ) -> None:
        self._write, self._sources, self._length, self._most = write, sources, length, most
        self._pool = Threads(thread_count(), thread_name_prefix="ooc-graph-record")
        self._cancelled = current_event()
        self._lock = threading.Lock()
        self._taken: set[int] = set()
        self._error: BaseException | None = None

    def __enter__(self) -> Recording:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Wait for what is being written; raise what went wrong there."""
        self._pool.shutdown()
        # Not kept: its frames hold this object, and the answers.
        failed, self._error = self._error, None
        try:
            if failed is not None and (kind is None or kind is CancelledError):
                raise failed
        finally:
            del failed

    def of(self, rows: Any, is_searched: AnyArray) -> OnDone:
        """Return what to call when sources are found; it records chunks.

        Rows are read once they are found. ``is_searched``, bool (sources,), says which of them are
        searched from, in their order, so that positions are counted among these.
        """
        positions, is_found = np.flatnonzero(is_searched), ~is_searched

        def on_done(begin: int, end: int) -> None:
            touched = np.unique(positions[begin:end] // self._length).tolist()
            with self._lock:
                is_found[positions[begin:end]] = True
                chunks = [n for n in touched if is_found[slice(*self._bounds(n))].all()]
                self._taken.update(chunks)
            for number in chunks:
                if self._most:
                    count = int(is_searched[slice(*self._bounds(number))].sum())
                    self._pass_on(rows, number, count)
                else:
                    self._record(rows, number)
            self._leave_if_cancelled()

        def wait_for(sources: int) -> None:
            if self._most:
                # A chunk of which some sources are found is not counted among those that wait.
                _unrecorded.wait_for(self._most - max(sources, self._length))
                self._leave_if_cancelled()

        bounds = np.searchsorted(positions, np.arange(self._chunks + 1) * self._length)
        return OnDone(on_done, bounds, self._most, wait_for)

    def finish(self, rows: Any) -> None:
        """Write what was not reported, on the calling thread; the search is over."""
        for number in range(self._chunks):
            if number not in self._taken:
                self._leave_if_cancelled()
                self._write(rows.part(*self._bounds(number)), number)

    @property
    def _chunks(self) -> int:
        return -(-self._sources // self._length)

    def _bounds(self, number: int) -> tuple[int, int]:
        """First source of a chunk, and the one after its last."""
        first = number * self._length
        return first, min(first + self._length, self._sources)

    def _pass_on(self, rows: Any, number: int, sources: int) -> None:
        _unrecorded.add(sources)
        is_counted = threading.Lock()

        def uncount() -> None:
            # Once: where a thread is refused, others may come to the chunk nevertheless.
            if is_counted.acquire(blocking=False):
                _unrecorded.add(-sources)

        def record() -> None:
            try:
                self._record(rows, number)
            finally:
                uncount()

        try:
            self._pool.submit(record)
        except BaseException as error:  # noqa: BLE001 -- as of `_record`
            self._error = self._error or error
            uncount()

    def _record(self, rows: Any, number: int) -> None:
        try:
            if self._error is None:
                self._write(rows.part(*self._bounds(number)), number)
        except BaseException as error:  # noqa: BLE001 -- raised where the context ends
            # Not here: a search would say that it was refused the memory that was for a chunk.
            self._error = self._error or error

    def _leave_if_cancelled(self) -> None:
        """End the search if a chunk could not be written, or nobody waits for the task."""
        if self._error is not None or (self._cancelled is not None and self._cancelled.is_set()):
            raise CancelledError
