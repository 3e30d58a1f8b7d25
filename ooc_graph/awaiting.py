"""Calls with an asynchronous Dask client: the blocking function in a thread, to be awaited.

The thread has a synchronous client of the same scheduler, so that nothing else of the package knows
of event loops.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Event
from typing import Any, TypeVar

from ooc_graph.errors import UsageError

Done = TypeVar("Done")


def asynchronous_client(given: Any) -> Any:
    """The client of a call if it must be awaited, else None.

    That is a client of the running event loop: the one that is given, or the current one if None
    is. A task on a worker means its own process; nobody has a client who has not imported Dask's.
    """
    distributed: Any = sys.modules.get("distributed")
    if given is False or not hasattr(distributed, "Client"):
        return None
    with suppress(ValueError):
        distributed.get_worker()
        return None
    with suppress(ValueError):
        client = distributed.default_client() if given is None else given
        is_of_use = isinstance(client, distributed.Client) and client.status == "running"
        return client if is_of_use and client.asynchronous else None
    return None


async def in_thread(client: Any, call: Callable[[Any], Done]) -> Done:
    """Have a thread call a function with a synchronous client, which is current there.

    If this is cancelled, the client is closed, and the function ends by an error, which is waited
    for. As after an interrupt, a worker finishes the task that it is at, and drops what it found.
    """
    from distributed import Client  # noqa: PLC0415 - who calls this has imported it

    address, security, is_over = client.scheduler.address, client.security, Event()
    opened: list[Any] = []

    def run() -> Done:
        _raise_if(is_over)
        options = {"security": security, "set_as_default": False, "asynchronous": False}
        with Client(address, **options) as own:
            opened.append(own)
            _raise_if(is_over)
            with own.as_current():
                return call(own)

    # In a thread of its own: calls that wait must not take those that close their clients.
    pool = ThreadPoolExecutor(1, thread_name_prefix="ooc-graph-call")
    within = copy_context()
    task = asyncio.get_running_loop().run_in_executor(pool, lambda: within.run(run))
    pool.shutdown(wait=False)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        is_over.set()
        for own in opened:
            with suppress(Exception):
                await asyncio.to_thread(own.close)
        await asyncio.wait([task])
        task.exception()  # it has been looked at, so that asyncio does not report it
        raise


def refuse_left(options: dict[str, Any]) -> None:
    """Refuse an answer that would stay on workers: it is lost when the thread's client closes."""
    if options.get("arrays") == "dask":
        raise UsageError(
            "arrays='dask' needs a synchronous client: leave it out to await an answer"
        )


def _raise_if(is_over: Event) -> None:
    if is_over.is_set():
        raise RuntimeError("the call was cancelled before it began")
