"""Threads of this process that are refused as memory is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Done = TypeVar("Done")
Given = ParamSpec("Given")

_REFUSED = "can't start new thread"


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
        raise MemoryError("the system starts no further thread")


def is_refusal(error: RuntimeError) -> bool:
    """Whether an error says that the system started no thread."""
    return _REFUSED in str(error)
