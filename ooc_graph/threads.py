"""Threads of this process: refused as memory is, and waited for whatever interrupts."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import ParamSpec, TypeAlias, TypeVar

Done = TypeVar("Done")
Given = ParamSpec("Given")

_REFUSED = "can't start new thread"
_NO_MORE = "the system starts no further thread"
_Given: TypeAlias = "SimpleQueue[Callable[[], None] | None]"


class Threads(ThreadPoolExecutor):
    """A pool of threads. One that the system does not start is memory that it refuses.

    A thread's stack is often what a process asks for last, so it is as likely to be refused as an
    array; Python says so by a RuntimeError without a kind of its own.
    """

    def submit(
        self, fn: Callable[Given, Done], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Done]:
        """Have a thread call ``fn``.

        Raises
        ------
        MemoryError
            A thread was needed for it, and refused. Threads that are there may still call it.
        """
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
        raise MemoryError(_NO_MORE)


class Members:
    """Threads that each do what they are given, in order, and that are surely waited for.

    An interrupt may come between any two steps of the main thread, also inside a lock that is
    written in Python, as those of pools and futures are. Such a lock stays closed, and who comes
    next waits for ever. Between the caller and these threads are the interpreter's own alone.

    Parameters
    ----------
    count
        Threads. They end when nobody has this object any more.
    name
        What their names begin with.

    Raises
    ------
    MemoryError
        A thread was refused.
    """

    def __init__(self, count: int, name: str) -> None:
        self._given: list[_Given] = [SimpleQueue() for _ in range(count)]
        self._threads: list[threading.Thread] = []
        self._busy: set[int] = set()
        weakref.finalize(self, _end, self._given).atexit = False
        try:
            for number, given in enumerate(self._given):
                thread = threading.Thread(
                    target=_work, args=(given,), name=f"{name}_{number}", daemon=True
                )
                thread.start()
                self._threads.append(thread)
        except RuntimeError as error:
            self.close()
            if not is_refusal(error):
                raise
            raise MemoryError(_NO_MORE) from None

    def give(self, member: int, call: Callable[[], None]) -> None:
        """Have a thread make a call after those that it was given before; it must not raise."""
        # First: an interrupt behind the call is to leave nobody out of those that are waited for.
        self._busy.add(member)
        self._given[member].put(call)

    def wait(
        self,
        interrupted: Callable[[], None] | None = None,
        *,
        meanwhile: Callable[[], None] | None = None,
        every_s: float = 1.0,
    ) -> None:
        """Wait until all have done what they were given.

        Parameters
        ----------
        interrupted
            Called at every interrupt meanwhile; the first is raised when all are done.
        meanwhile
            Called whenever ``every_s`` seconds have gone by. An error of it is as an interrupt, and
            after it there are no more calls.
        """
        first: BaseException | None = None
        has_passed = [member not in self._busy for member in range(len(self._given))]
        while not all(has_passed):
            try:
                self._pass(has_passed, meanwhile if first is None else None, every_s)
            except BaseException as error:  # noqa: BLE001 -- raised below
                first = first or error
                if interrupted is not None:
                    interrupted()
        self._busy.clear()
        if first is not None:
            raise first

    def _pass(
        self, has_passed: list[bool], meanwhile: Callable[[], None] | None, every_s: float
    ) -> None:
        """Note who has come to the end of what was given; once more, if it was interrupted."""
        for member in range(len(has_passed)):
            if has_passed[member]:
                continue
            door = threading.Lock()
            door.acquire()

            def leave(member: int = member, door: threading.Lock = door) -> None:
                # In this order: who is interrupted behind the door sees that it was passed.
                has_passed[member] = True
                door.release()

            self._given[member].put(leave)
            if meanwhile is None:
                door.acquire()
                continue
            while not door.acquire(timeout=every_s):
                meanwhile()

    def close(self) -> None:
        """End the threads, after what they were given."""
        _end(self._given)
        for thread in self._threads:
            thread.join()


def raise_first(errors: list[BaseException]) -> None:
    """Raise the first of some errors, if there are any, and forget all.

    Their frames know the list, and would keep what is in them alive with it.
    """
    try:
        if errors:
            raise errors[0]
    finally:
        errors.clear()


def _work(given: _Given) -> None:
    while (call := given.get()) is not None:
        call()
        # Not until the next call: what it holds may be large.
        del call


def _end(members: Sequence[_Given]) -> None:
    for given in members:
        given.put(None)


def is_refusal(error: RuntimeError) -> bool:
    """Whether an error says that the system started no thread."""
    return _REFUSED in str(error)
