"""How what a task gave comes to the client: from its worker, if this process reaches that.

Dask sends it through the scheduler, which copies it, unless a client says otherwise for all workers
at once. Whether a worker can be reached is found out while the first result takes that way. Should
it be lost later, Dask itself asks the scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

Describe = Callable[..., Any]
"""Called with a key and ``dask_worker``, on the event loop of the worker that has its outcome."""

REACH_S = 2.0
"""How long a worker has to answer the first question that it is asked directly."""


class Outcomes:
    """Outcomes of a client's tasks; methods are coroutines on its event loop."""

    def __init__(self) -> None:
        self._reached: dict[str, asyncio.Future[bool]] = {}

    async def of(
        self,
        future: Any,
        address: str | None,
        describe: Describe | None = None,
        *,
        raiseit: bool = True,
    ) -> Any:
        """What the client's future becomes; ``address`` is the worker that has it, if it is known.

        What ``describe`` says of it instead, unless that is None. An error is raised, or given as
        Dask's future does that.
        """
        if (said := await self._described(future, address, describe)) is not None:
            return said
        if address is None or future.status != "finished" or not self._reaches(future, address):
            return await future._result(raiseit=raiseit)
        return (await future.client.gather([future], direct=True, asynchronous=True))[0]

    async def said(self, future: Any, address: str | None, describe: Describe | None) -> Any:
        """What ``describe`` says of an outcome on its worker, with the future and the address.

        If it says None, the outcome and None; if there is no such function, the outcome. An error
        is given as Dask's future does that. The worker's event loop is asked, and no task, which
        would wait until a thread is free.
        """
        if (said := await self._described(future, address, describe)) is not None:
            return said, (future, address)
        found = await self.of(future, address, raiseit=False)
        # Its worker may have been lost meanwhile, and another has done the task.
        return found if describe is None or future.status == "error" else (found, None)

    async def _described(self, future: Any, address: str | None, describe: Describe | None) -> Any:
        """What a worker says of an outcome, once there is one; None if it has none."""
        await future._state.wait()
        if describe is None or address is None or future.status != "finished":
            return None
        self._reaches(future, address)
        return (await future.client.run(describe, future.key, workers=[address]))[address]

    def _reaches(self, future: Any, address: str) -> bool:
        """Whether a worker has answered; if it was not asked yet, it is now."""
        if address not in self._reached:
            # The task is kept, and Dask's context has the client in it, which is not to be kept.
            asked = asyncio.get_running_loop().create_task(
                _answers(future.client, address), context=Context()
            )
            self._reached[address] = asked
        reached = self._reached[address]
        return reached.done() and not reached.cancelled() and reached.result()


async def _answers(client: Any, address: str) -> bool:
    try:
        await asyncio.wait_for(client.rpc(address).identity(), REACH_S)
    except Exception:  # noqa: BLE001 -- whatever it is, the scheduler is asked
        return False
    return True


async def first_done(futures: Sequence[Any]) -> None:
    """Wait until one of some futures is done."""
    waits = [asyncio.ensure_future(future._state.wait()) for future in futures]
    try:
        await asyncio.wait(waits, return_when="FIRST_COMPLETED")
    finally:
        # Dask's own wait leaves one such task for each future behind.
        for each in waits:
            each.cancel()
