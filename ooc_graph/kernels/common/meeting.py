"""Barriers of threads of several processes, in memory that these processes map.

As `ooc_graph.kernels.common.team.barrier`, but whoever waits too long gives up. Then all who come
later do, too: that a barrier is passed or given up is one change of one word, so that everyone
knows the same of it.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction, kernel
from ooc_graph.kernels.common.intrinsics import atomic_replace
from ooc_graph.kernels.common.team import (
    ABORT,
    ARRIVED,
    GENERATION,
    SPINS,
    atomic_add,
    atomic_load,
    atomic_store,
    yield_core,
)

PATIENCE_S, MOST_PATIENCE_S = 2, 20
"""How long a thread waits at least, and beyond that at most; see `meet`."""
GIVEN_UP, BUSY = -1, -2
"""What word `GENERATION` of the common control array is from then on; `BUSY`: somebody could not
come, because another search has the threads."""
_LOOKS = 256


class Waits(NamedTuple):
    """How members wait: see `meet`. They ``are_crowded`` if there are more than cores."""

    patience_s: int
    are_crowded: bool


@instruction
def seconds(typing_context: Any) -> Any:  # noqa: ARG001
    """Whole seconds of a clock that nobody sets (POSIX ``clock_gettime``)."""

    def generate(_context: Any, builder: Any, *_: Any) -> Any:
        number, word = ir.IntType(32), ir.IntType(64)
        pair = cgutils.alloca_once(builder, ir.ArrayType(word, 2))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [number, pair.type]), "clock_gettime"
        )
        builder.call(function, [number(time.CLOCK_MONOTONIC), pair])
        return builder.load(builder.bitcast(pair, word.as_pointer()))

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
def meet(control: Any, own: Any, members: int, begun_s: int, waits: Any) -> bool:
    """Wait for all members; False: somebody gave up, now or before, and the caller must return.

    ``control`` is common to all, ``own`` that of the process; both are as of `new_control`. Who has
    been at work since ``begun_s`` waits so long once more, at most `MOST_PATIENCE_S`, and
    ``waits.patience_s`` besides: parts of the same work do not differ by more. A waiting thread
    sleeps if members ``waits.are_crowded``; otherwise it only offers its core to others.
    """
    generation = atomic_load(control, GENERATION)
    if generation < 0:
        return False
    if atomic_add(control, ARRIVED, 1) == members - 1:
        atomic_store(control, ARRIVED, 0)
        return bool(atomic_replace(control, GENERATION, generation, generation + 1) == generation)
    looks, waiting_s = 0, seconds()
    until_s = waiting_s + waits.patience_s + min(waiting_s - begun_s, MOST_PATIENCE_S)
    while True:
        now = atomic_load(control, GENERATION)
        if now != generation:
            return bool(now >= 0)
        looks += 1
        if looks > SPINS:
            if waits.are_crowded:
                nap()
            else:
                yield_core()
            is_over = looks % _LOOKS == 0 and seconds() > until_s
            if is_over or atomic_load(own, ABORT) != 0:
                atomic_replace(control, GENERATION, generation, GIVEN_UP)
