"""Barriers of threads of several processes, in memory that these processes map.

As `ooc_graph.kernels.common.team.barrier`, but whoever waits too long gives up. Then all who come
later do, too: that a barrier is passed or given up is one change of one word, so that everyone
knows the same of it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction, kernel
from ooc_graph.kernels.common.intrinsics import atomic_replace
from ooc_graph.kernels.common.team import (
    ARRIVED,
    GENERATION,
    SPINS,
    atomic_add,
    atomic_load,
    atomic_store,
    yield_core,
)

PATIENCE_S = 2
"""How long a thread waits at least; see `meet`."""
GIVEN_UP = -1
_LOOKS = 256


@instruction
def seconds(typing_context: Any) -> Any:  # noqa: ARG001
    """The time in seconds, of a clock that is cheap to read (POSIX ``time``)."""

    def generate(_context: Any, builder: Any, *_: Any) -> Any:
        word = ir.IntType(64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [word.as_pointer()]), "time"
        )
        return builder.call(function, [word.as_pointer()(None)])

    return types.int64(), generate


@instruction
def nap(typing_context: Any) -> Any:  # noqa: ARG001
    """Sleep as shortly as the system lets a thread, some 0.1 ms (POSIX ``usleep``)."""

    def generate(context: Any, builder: Any, *_: Any) -> Any:
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [word]), "usleep"
        )
        builder.call(function, [word(20)])
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def meet(control: Any, members: int, begun_s: int, patience_s: int, are_crowded: bool) -> bool:
    """Wait for all members; False: somebody gave up, now or before, and the caller must return.

    ``control`` is as of `new_control`. Who has been at work since ``begun_s`` waits so long once
    more, and ``patience_s`` besides: parts of the same work do not differ by more. If members
    ``are_crowded``, more than there are cores, who waits sleeps.
    """
    generation = atomic_load(control, GENERATION)
    if generation == GIVEN_UP:
        return False
    if atomic_add(control, ARRIVED, 1) == members - 1:
        atomic_store(control, ARRIVED, 0)
        return bool(atomic_replace(control, GENERATION, generation, generation + 1) == generation)
    looks, waiting_s = 0, seconds()
    while True:
        now = atomic_load(control, GENERATION)
        if now != generation:
            return bool(now != GIVEN_UP)
        looks += 1
        if looks > SPINS:
            if are_crowded:
                nap()
            else:
                yield_core()
            if looks % _LOOKS == 0 and seconds() - waiting_s > patience_s + waiting_s - begun_s:
                atomic_replace(control, GENERATION, generation, GIVEN_UP)
