"""What engines are kept by, what there is no memory for, and answers that lie in their arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakMethod

from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.engine import Engine, RankEngine
from ooc_graph.model.reservation import Key
from ooc_graph.model.resources import Capacity
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.shards.load import Graph


class Kept(NamedTuple):
    """A key, and the number of the CUDA device, which alone can use what was loaded there.

    Of ranks also the address of the Dask worker that has them, and their names.
    """

    key: Key
    number: str
    worker: str = ""
    ranks: tuple[Any, ...] = ()

    def is_of(self, graph: Graph) -> bool:
        """Whether it is of a graph, as a search from this process names it."""
        return (self.key.path, self.key.identity) == (str(graph.path), graph.identity)


def serve_the_same(one: Kept, other: Kept) -> bool:
    """Whether ranks are of the same graph, kernel and strategy, on the same device and worker."""
    is_same_graph = one.key[:-1] == other.key[:-1]
    is_same_strategy = one.key.reserved.strategy == other.key.reserved.strategy
    there = one.number, one.worker
    return is_same_graph and is_same_strategy and there == (other.number, other.worker)


def short_of(wanted: Kept, is_loaded: bool, kept: Sequence[Kept], capacity: Capacity) -> str:
    """What of a reservation does not fit beside others; empty if all does."""
    reserved, others = wanted.key.reserved, [one.key.reserved for one in kept]
    everyone = (*others, reserved)
    host_bytes = sum(one.host_bytes for one in everyone)
    if capacity.host_bytes is None:
        is_short = not is_loaded and reserved.host_bytes > default_limit_bytes()
    else:
        is_short = host_bytes > capacity.host_bytes
    if is_short:
        return "host_bytes"
    if not (reserved.device_bytes or reserved.fills_device):
        return ""
    pinned_bytes = sum(one.pinned_bytes for one in everyone)
    if capacity.pinned_bytes is not None and pinned_bytes > capacity.pinned_bytes:
        return "pinned_bytes"
    if any(one.fills_device for one in others):
        return "fills_device"
    on_device = sum(one.device_bytes for one in everyone)
    is_short = capacity.device_bytes is not None and on_device > capacity.device_bytes
    is_short |= reserved.fills_device and on_device > reserved.device_bytes
    if not is_loaded and not is_short:
        is_short = reserved.device_bytes > cuda_modules.device_bytes()[0]
    return "device_bytes" if is_short else ""


# By the engine's `id`. Nobody needs to complete an answer that is gone.
_lent: dict[int, WeakMethod[Callable[[], None]]] = {}


def lend(engine: Engine, settle: Callable[[], None]) -> None:
    """Let an answer lie in an engine's arrays until its method ``settle`` is called for others."""
    _lent[id(engine)] = WeakMethod(settle)


def take_back(engine: Engine | RankEngine) -> None:
    """Have the answer completed that lies in an engine's arrays, if there is one."""
    lent = _lent.get(id(engine))
    settle = None if lent is None else lent()
    if settle is not None:
        settle()
    # Not before: if this is interrupted, the answer is still to be completed.
    _lent.pop(id(engine), None)
