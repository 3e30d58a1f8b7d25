"""Chunks of a task of many sources that are recorded while the rest of it is still searched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np

from ooc_graph.kernels.given_up import event_here
from ooc_graph.session import resident
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, Told


@cache
def _slots(threads: int) -> threading.BoundedSemaphore:
    """What is found and not recorded yet, in this process: once as much as is searched."""
    return threading.BoundedSemaphore(threads)


class Recording:
    """Records the chunks of a task, each as soon as all of its sources are found.

    Threads of its own write them, as many as search, while those go on. One that finds more while
    so many others are written, in all tasks of the process, waits. When the context ends nothing is
    written any more; what went wrong is raised there, as the search is only given up for it.

    Parameters
    ----------
    write
        ``write(rows, number)`` writes and records a chunk, counted from the first of the task;
        several threads call it.
    sources
        How many the task has.
    length
        Sources of a chunk.
    """

    def __init__(self, write: Callable[[Any, int], None], sources: int, length: int) -> None:
        threads = resident.threads_here()
        self._write, self._sources, self._length = write, sources, length
        self._pool = Threads(threads, thread_name_prefix="ooc-graph-record")
        self._slots, self._given_up = _slots(threads), event_here()
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

    def of(self, rows: Any, is_searched: AnyArray) -> Told:
        """Return what is to hear of sources when they are found.

        Parameters
        ----------
        rows
            Answers of all sources of the task, read once they are found.
        is_searched
            bool (sources,): which of them are searched from, in their order, so that places are
            counted among these.
        """
        places, is_found = np.flatnonzero(is_searched), ~is_searched

        def told(begin: int, end: int) -> None:
            touched = np.unique(places[begin:end] // self._length).tolist()
            with self._lock:
                is_found[places[begin:end]] = True
                chunks = [n for n in touched if is_found[slice(*self._bounds(n))].all()]
                self._taken.update(chunks)
            if chunks:
                try:
                    self._hand_over(rows, chunks)
                except MemoryError as error:
                    # Raised where the context ends: a search would say that it was refused this.
                    self._error = self._error or error
            self._leave_if_given_up()

        return told

    def finish(self, rows: Any) -> None:
        """Write what nobody was told of, on the calling thread; the search is over."""
        for number in range(-(-self._sources // self._length)):
            if number not in self._taken:
                self._leave_if_given_up()
                self._write(rows.part(*self._bounds(number)), number)

    def _bounds(self, number: int) -> tuple[int, int]:
        """First source of a chunk, and the one after its last."""
        first = number * self._length
        return first, min(first + self._length, self._sources)

    def _hand_over(self, rows: Any, chunks: Sequence[int]) -> None:
        self._slots.acquire()
        is_held = threading.Lock()

        def free() -> None:
            # Once: where a thread is refused, others may come to the chunks nevertheless.
            if is_held.acquire(blocking=False):
                self._slots.release()

        try:
            self._pool.submit(self._write_all, rows, chunks, free)
        except BaseException:
            free()
            raise

    def _write_all(self, rows: Any, chunks: Sequence[int], free: Callable[[], None]) -> None:
        try:
            for number in chunks:
                if self._error is not None:
                    return
                self._write(rows.part(*self._bounds(number)), number)
        except BaseException as error:  # noqa: BLE001 -- raised where the context ends
            self._error = self._error or error
        finally:
            free()

    def _leave_if_given_up(self) -> None:
        """End the search if a chunk could not be written, or nobody waits for the task.

        Raises
        ------
        CancelledError
        """
        if self._error is not None or (self._given_up is not None and self._given_up.is_set()):
            raise CancelledError
