"""Questions to a Dask cluster, none of which can hang on a worker that froze."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import CancelledError, Client

from ooc_graph.errors import ClusterLostError, OocGraphError

LOOK_AGAIN_S = 0.2
CLOSED = "the connection to the Dask scheduler is closed"


def usable_workers(
    client: Client, wanted: Sequence[str] | None, *, avoid: Collection[str], wait_s: float
) -> list[str]:
    """Addresses of running workers, once there is at least one.

    Parameters
    ----------
    client
        A synchronous client.
    wanted
        Addresses or names to choose from; None: all workers.
    avoid
        Addresses that did not answer. They are left out as long as others are there or come.
    wait_s
        How long to wait for a worker to come; then the list has those to avoid, or is empty.
    """
    deadline_s = time.monotonic() + wait_s
    while True:
        there = _running(client, wanted)
        good = [address for address in there if address not in avoid]
        if good:
            return good
        if time.monotonic() >= deadline_s:
            return there
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def talking_to(client: Client) -> Iterator[None]:
    """Turn what a closed client raises, which can be anything, into ClusterLostError."""
    try:
        yield
    except OocGraphError:
        raise
    except (Exception, CancelledError) as error:
        if is_closed(client):
            raise ClusterLostError(CLOSED) from error
        raise


def is_closed(client: Client) -> bool:
    """Whether the client's connection is gone or going."""
    return client.status in ("closing", "closed")


def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler says of each of its workers, by address; none if it says nothing.

    Not by `Client.scheduler_info`: the client asks for the same without workers every two seconds,
    and now and then it is that answer which is given.

    Raises
    ------
    ClusterLostError
        The client is closed.
    """
    try:
        with talking_to(client):
            untyped: Any = client
            told: dict[str, Any] = untyped.sync(untyped.scheduler.identity, n_workers=-1)
    except OSError:
        return {}
    workers: dict[str, Any] = told["workers"]
    return workers


def _running(client: Client, wanted: Sequence[str] | None) -> list[str]:
    workers = workers_of(client)
    running = {a: str(info["name"]) for a, info in workers.items() if info["status"] == "running"}
    if wanted is None:
        return list(running)
    names = {str(name) for name in wanted}
    return [address for address, name in running.items() if address in names or name in names]


def still_there(client: Client, addresses: Collection[str]) -> set[str]:
    """Those of the addresses that the scheduler still has as workers; all if it says nothing.

    A scheduler that stays silent ends the client, which is what `talking_to` notices.
    """
    try:
        untyped: Any = client
        with talking_to(client):
            return set(untyped.nthreads(workers=list(addresses)))
    except OSError:
        return set(addresses)


def run_on_each(
    client: Client,
    function: Callable[..., Any],
    arguments: Mapping[str, tuple[Any, ...]],
    *,
    timeout_s: float,
) -> dict[str, Any]:
    """Run a coroutine function on the event loops of workers.

    Parameters
    ----------
    client
        A synchronous client.
    function
        Picklable; gets its worker as ``dask_worker``.
    arguments
        Address of each worker, and its positional arguments.
    timeout_s
        A worker that does not answer in this time has a TimeoutError.

    Returns
    -------
    dict
        By address: what the function returned, or the exception.
    """

    async def on_one(address: str) -> Any:
        call = client.run(function, *arguments[address], workers=[address])
        try:
            return (await asyncio.wait_for(call, timeout_s))[address]
        except Exception as error:  # noqa: BLE001 -- the caller decides by its kind
            return error

    async def on_each() -> dict[str, Any]:
        answers = await asyncio.gather(*(on_one(address) for address in arguments))
        return dict(zip(arguments, answers, strict=True))

    untyped: Any = client
    with talking_to(client):
        answers: dict[str, Any] = untyped.sync(on_each)
    return answers
