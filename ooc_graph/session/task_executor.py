"""A Dask client as an executor that can be stopped at any moment without a word."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any

from distributed import Client
from distributed.cfexecutor import ClientExecutor, _cascade_future


class TaskExecutor(ClientExecutor):
    """`distributed.cfexecutor.ClientExecutor` that bears being stopped while results travel.

    There, a task that is cancelled after its end and before its result has come makes an error
    inside the event loop, which prints a traceback, and leaves a future that is never done. So
    does a connection that is lost in that moment.

    Parameters
    ----------
    client
        Of the cluster that carries out the tasks; none of them is taken for pure.
    """

    def __init__(self, client: Client) -> None:
        self._client: Any
        super().__init__(client, pure=False)  # type: ignore[no-untyped-call]

    def _wrap_future(self, future: Any) -> Future[Any]:
        promised: Future[Any] = Future()

        def cancel(done: Future[Any]) -> None:
            if done.cancelled() and future.status != "cancelled":
                future.cancel()

        promised.add_done_callback(cancel)
        self._client.loop.add_callback(_hand_on, future, promised)
        return promised


async def _hand_on(future: Any, promised: Future[Any]) -> None:
    try:
        await _cascade_future(future, promised)
    except (CancelledError, InvalidStateError):
        promised.cancel()
        promised.set_running_or_notify_cancel()
    except OSError as error:  # as of a closed connection: to whoever waits
        with suppress(InvalidStateError):
            promised.set_exception(error)
