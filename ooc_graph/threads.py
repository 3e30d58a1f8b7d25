"""Threads of this process: refused as memory is, and waited for whatever interrupts."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import ParamSpec, TypeAlias, TypeVar

from ooc_graph.forked import in_child

CHECK_S = 1.0
"""Seconds after which a thread that waits for tasks looks whether they can still be done."""

Done = TypeVar("Done")
Given = ParamSpec("Given")

_REFUSED = "can't start new thread"
_NO_MORE = "the system starts no further thread"
_Call: TypeAlias = Callable[[], object]
_Given: TypeAlias = "SimpleQueue[_Call | None]"


def cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads(ThreadPoolExecutor):
    """A pool of threads. One that the system does not start is memory that it refuses.

    A thread's stack is often what a process asks for last, so it is as likely to be refused as an
    array; Python says so by a RuntimeError without a kind of its own.
    """

    def submit(
        self, fn: Callable[Given, Done], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Done]:
        """Have a thread call ``fn``; MemoryError if one was needed for it, and refused.

        Threads that are there may still call it then.
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
    written in Python, as those of pools and futures are: it stays closed, and who comes next waits
    for ever. Between the caller and these threads are only the interpreter's own locks.

    What a call raises ends neither its thread nor later calls: it is kept until the caller waits.
    The threads end when nobody has this object any more; in a forked child they are started with
    the first call. A thread that is refused is a MemoryError.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._given: list[_Given] = []
        self._threads: list[threading.Thread] = []
        self._busy: set[int] = set()
        # Those of the calls since somebody waited; threads append to it.
        self._errors: list[BaseException] = []
        weakref.finalize(self, _end, self._given).atexit = False
        in_child(self._forget)
        self._start()

    def _forget(self) -> None:
        """In a forked child: the threads are not there, nor is what they were given to do."""
        for kept in (self._given, self._threads, self._busy, self._errors):
            kept.clear()

    def _start(self) -> None:
        # Queues of their own: of threads whose start was interrupted none is to take a call.
        queues: list[_Given] = [SimpleQueue() for _ in range(self._count)]
        threads: list[threading.Thread] = []
        try:
            for number, given in enumerate(queues):
                thread = threading.Thread(
                    target=_work,
                    args=(given, self._errors),
                    name=f"{self._name}_{number}",
                    daemon=True,
                )
                thread.start()
                threads.append(thread)
        except BaseException as error:
            _end(queues)
            if not isinstance(error, RuntimeError) or not is_refusal(error):
                raise
            for thread in threads:
                thread.join()
            raise MemoryError(_NO_MORE) from None
        self._threads[:] = threads
        self._given[:] = queues

    def give(self, member: int, call: _Call, failed: _Call | None = None) -> None:
        """Have a thread make a call after those that it was given before.

        As soon as it has raised, the thread calls ``failed`` for those who work with it, which must
        take no lock that is written in Python.
        """
        if not self._given:
            self._start()
        # First: an interrupt behind the call is to leave nobody out of those that are waited for.
        self._busy.add(member)
        self._given[member].put(call if failed is None else partial(_tell, call, failed))

    def wait(
        self,
        end: _Call | None = None,
        *,
        meanwhile: _Call | None = None,
        every_s: float = 1.0,
    ) -> None:
        """Wait until all have done what they were given, and raise what the first one raised.

        ``end`` is called at every interrupt meanwhile, so that there is less to wait for; it must
        not raise. The first interrupt is raised when all are done. ``meanwhile`` is called whenever
        ``every_s`` seconds have gone by; an error of it is as an interrupt, and the last call.
        """
        raise_first(self.settle(end, meanwhile=meanwhile, every_s=every_s))

    def settle(
        self,
        end: _Call | None = None,
        *,
        at_once: bool = False,
        meanwhile: _Call | None = None,
        every_s: float = 1.0,
    ) -> list[BaseException]:
        """As `wait`, for callers that may have an error of their own to raise.

        Returns what calls have raised, in that order, for `raise_first`; it is forgotten here.
        ``at_once`` calls ``end`` now.
        """
        interrupts: list[BaseException] = []
        errors: list[BaseException] = []
        has_passed, is_to_end = [False] * self._count, at_once
        # No call stands before it: an interrupt that comes earlier would leave all at work. Where
        # Python looks for interrupts and nothing here can catch them is the entry of this function,
        # and, for those after the first, the handler below with its way back to the top.
        while self._busy:
            try:
                if is_to_end and end is not None:
                    end()
                is_to_end = False
                self._pass(has_passed, None if interrupts else meanwhile, every_s)
                # In this order: an interrupt between them has all of it done again.
                errors += self._errors
                self._errors.clear()
                self._busy.clear()
            except BaseException as error:  # noqa: BLE001 -- raised below
                is_to_end = True
                interrupts.append(error)
        if interrupts:
            errors.clear()
        raise_first(interrupts)
        return errors

    def _pass(self, has_passed: list[bool], meanwhile: _Call | None, every_s: float) -> None:
        """Note who has come to the end of what was given; once more, if it was interrupted."""
        for member in self._busy:
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


def _work(given: _Given, errors: list[BaseException]) -> None:
    while (call := given.get()) is not None:
        _make(call, errors)
        # Not until the next call: what it holds may be large.
        del call


def _make(call: _Call, errors: list[BaseException]) -> None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 -- raised by the thread that waits
        errors.append(error)


def _tell(call: _Call, failed: _Call) -> None:
    try:
        call()
    except BaseException:
        failed()
        raise


def _end(members: Sequence[_Given]) -> None:
    for given in members:
        given.put(None)


def is_refusal(error: RuntimeError) -> bool:
    """Whether an error says that the system started no thread."""
    return _REFUSED in str(error)
