"""Barriers of threads of several processes, in memory that these processes map.

As `ooc_graph.kernels.common.team.barrier`, but whoever waits too long gives up. Then all who come
later do, too: that a barrier is passed or given up is one change of one word, so that everyone
knows the same of it.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.atomics import element_pointer
from ooc_graph.kernels.common.compiled import instruction, kernel
from ooc_graph.kernels.common.intrinsics import atomic_replace
from ooc_graph.kernels.common.team import (
    ABORT,
    ARRIVED,
    GENERATION,
    LINE,
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
_SLEEP_NS, _NAP_NS = 20_000_000, 5_000_000
"""How long a thread sleeps at most before it looks whether it has waited for too long; and before
it looks whether somebody does not come to a gathering."""
_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}
FUTEX = _NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
"""Number of the system call by which threads sleep until they are woken; None: they cannot."""


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


def _futex(operation: int, most_ns: int = _SLEEP_NS) -> Callable[..., Any]:
    """Instruction that calls Linux's ``futex``, which sees the low half of a word of int64."""

    def typing(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if FUTEX is not None:
                number, word = ir.IntType(32), ir.IntType(64)
                at = builder.ptrtoint(
                    element_pointer(context, builder, signature.args[0], args[0], args[1]), word
                )
                limit = cgutils.alloca_once_value(
                    builder, ir.Constant(ir.ArrayType(word, 2), [0, most_ns])
                )
                function = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(word, [word] * 5), "syscall"
                )
                low = builder.zext(builder.trunc(args[2], number), word)
                given = word(FUTEX), at, word(operation), low, builder.ptrtoint(limit, word)
                builder.call(function, given)
            return context.get_dummy_value()

        return types.void(array, types.intp, array.dtype), generate

    return typing


_sleep_while = instruction(_futex(0))
"""``_sleep_while(array, index, value)``: until `_wake`, a while, or no time if it is another."""
_nap_while = instruction(_futex(0, _NAP_NS))
"""As `_sleep_while`, for a shorter while."""
_wake = instruction(_futex(1))
"""``_wake(array, index, count)``: up to so many threads, of any process, that sleep for a word."""


def gathering_words(ranks: int) -> int:
    """Words of int64 that so many ranks need to gather: whole cache lines, zeros at first."""
    return LINE + -(-ranks // LINE) * LINE


@kernel
def come(words: Any, rank: int, name: int) -> None:
    """Say that a rank has come to the gathering of this name, and of no other.

    A gathering begins only after every rank knows how the one before ended.
    """
    atomic_store(words, LINE + rank, name)


@kernel
def gathered(words: Any, ranks: int, name: int) -> int:
    """Whether all ranks have come: 1; -1 if one has left; 0 if neither is so after a while.

    That they have, or that one has left, is one change of the first word: all know the same of it.
    """
    known = atomic_load(words, 0)
    if known >> 1 != name:
        are_there = True
        for rank in range(ranks):
            are_there &= atomic_load(words, LINE + rank) == name
        if not are_there:
            _nap_while(words, 0, known)
        elif atomic_replace(words, 0, known, name << 1 | 1) == known:
            _wake(words, 0, ranks)
        known = atomic_load(words, 0)
    if known >> 1 != name:
        return 0
    return 1 if known & 1 else -1


@kernel
def leave(words: Any, rank: int, ranks: int, name: int) -> bool:
    """Leave a gathering. True: too late, all have come."""
    atomic_store(words, LINE + rank, 0)
    while True:
        known = atomic_load(words, 0)
        if known >> 1 == name:
            return bool(known & 1)
        if atomic_replace(words, 0, known, name << 1) == known:
            _wake(words, 0, ranks)
            return False


@kernel
def meet(control: Any, own: Any, members: int, begun_s: int, waits: Any) -> bool:
    """Wait for all members; False: somebody gave up, now or before, and the caller must return.

    ``control`` is common to all, ``own`` that of the process; both are as of `new_control`. Who has
    been at work since ``begun_s`` waits so long once more, at most `MOST_PATIENCE_S`, and
    ``waits.patience_s`` besides: parts of the same work do not differ by more. A waiting thread
    sleeps at once if members ``waits.are_crowded``; otherwise it only offers its core to others.
    """
    generation = atomic_load(control, GENERATION)
    if generation < 0:
        return False
    if atomic_add(control, ARRIVED, 1) == members - 1:
        atomic_store(control, ARRIVED, 0)
        before = atomic_replace(control, GENERATION, generation, generation + 1)
        if waits.are_crowded:
            _wake(control, GENERATION, members)
        return bool(before == generation)
    looks, waiting_s = 0, seconds()
    until_s = waiting_s + waits.patience_s + min(waiting_s - begun_s, MOST_PATIENCE_S)
    while True:
        now = atomic_load(control, GENERATION)
        if now != generation:
            return bool(now >= 0)
        looks += 1
        if waits.are_crowded or looks > SPINS:
            if waits.are_crowded:
                _sleep_while(control, GENERATION, generation)
            else:
                yield_core()
            is_over = (waits.are_crowded or looks % _LOOKS == 0) and seconds() > until_s
            if is_over or atomic_load(own, ABORT) != 0:
                atomic_replace(control, GENERATION, generation, GIVEN_UP)
