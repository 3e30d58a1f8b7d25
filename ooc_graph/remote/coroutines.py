"""Coroutines of file systems, several at once, for callers that have no loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

Asked = TypeVar("Asked")


def await_each(
    files: Any, do: Callable[[Asked], Awaitable[None]], things: Sequence[Asked], at_once: int
) -> None:
    """Await what is done with each thing, in the loop of its file system.

    An error ends all of it, and so does an interrupt of this thread, whatever a server does.
    """
    doing = asyncio.run_coroutine_threadsafe(_each(do, things, at_once), files.loop)
    try:
        doing.result()
    finally:
        doing.cancel()


async def _each(
    do: Callable[[Asked], Awaitable[None]], things: Sequence[Asked], at_once: int
) -> None:
    limit = asyncio.Semaphore(at_once)

    async def limited(thing: Asked) -> None:
        async with limit:
            await do(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for thing in things:
                group.create_task(limited(thing))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
