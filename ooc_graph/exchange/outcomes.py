"""How what a task gave comes to the client: from its worker, if this process reaches that.

Dask sends it through the scheduler, which copies it, unless a client says otherwise for all workers
at once. Whether a worker can be reached is found out while the first result takes that way. Should
it be lost later, Dask itself asks the scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

REACH_S = 2.0
"""How long a worker has to answer the first question that it is asked directly."""


class Outcomes:
    """Outcomes of a client's tasks; methods are coroutines on its event loop."""

    def __init__(self) -> None:
        self._reached: dict[str, asyncio.Future[bool]] = {}

    async def of(self, future: Any, address: str | None, *, raiseit: bool = True) -> Any:
        """What the client's future becomes; ``address`` is the worker that has it, if it is known.

        An error is raised, or given as Dask's future does that.
        """
        await future._state.wait()
        if address is None or future.status != "finished" or not self._reaches(future, address):
            return await future._result(raiseit=raiseit)
        return (await future.client.gather([future], direct=True, asynchronous=True))[0]

    def _reaches(self, future: Any, address: str) -> bool:
        """Whether a worker has answered; if it was not asked yet, it is now."""
        if address not in self._reached:
            asked = _answers(future.client, address)
            self._reached[address] = asyncio.ensure_future(asked)
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
