"""Threads that run one kernel together, and the atomics by which they meet.

A kernel is called by every thread of a `Team` with its own thread number and the same arrays
(single program, multiple data, as in a cooperative launch on a GPU). Inside, threads meet at
`barrier` and take work in chunks by `atomic_add`. Numba's own threading layers are not used: the
kernels release the GIL and the threads are ours.

The control array (`new_control`) is int64 with one word a cache line, so that a thread that spins
on one word does not slow a thread that writes another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.atomics import element_pointer, read_modify_write
from ooc_graph.forked import free_in_child
from ooc_graph.kernels.common.compiled import instruction, kernel, subroutine
from ooc_graph.threads import Members, raise_first
from ooc_graph.types import IntArray

LINE = 8
"""Words of int64 in a cache line."""
ARRIVED, GENERATION, ABORT, CHUNK, OPERATION = 0, LINE, 2 * LINE, 3 * LINE, 4 * LINE
FIRST_FREE = 5 * LINE
"""First word of the control array that a kernel may use as it likes."""
CONTROL_WORDS = 32 * LINE
SPINS = 4000
"""Looks at the barrier before a waiting thread offers its core to others."""


def new_control() -> IntArray:
    """Return a control array for one launch: int64 (CONTROL_WORDS,), zeros."""
    return np.zeros(CONTROL_WORDS, np.int64)


@instruction
def atomic_load(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Load ``array[index]``, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_pointer(context, builder, signature.args[0], args[0], args[1])
        bytes_ = context.get_abi_sizeof(context.get_value_type(signature.return_type))
        return builder.load_atomic(pointer, "seq_cst", bytes_)

    return array.dtype(array, types.intp), generate


@instruction
def atomic_store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """Store ``value`` at ``array[index]``, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_pointer(context, builder, signature.args[0], args[0], args[1])
        bytes_ = context.get_abi_sizeof(args[2].type)
        builder.store_atomic(args[2], pointer, "seq_cst", bytes_)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


atomic_add = instruction(read_modify_write("add"))
"""``atomic_add(array, index, value)``: add to an element, return what was there."""
atomic_umin = instruction(read_modify_write("umin"))
"""``atomic_umin(array, index, value)``: unsigned minimum in place, return what was there."""
atomic_or = instruction(read_modify_write("or"))
"""``atomic_or(array, index, value)``: set bits in place, return what was there."""


@instruction
def yield_core(typing_context: Any) -> Any:  # noqa: ARG001
    """Offer this thread's core to another thread (POSIX ``sched_yield``)."""

    def generate(context: Any, builder: Any, *_: Any) -> Any:
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield"
        )
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def barrier(control: Any, threads: int) -> bool:
    """Wait for all threads; False when the launch was cancelled and the caller must return."""
    if threads == 1:
        return True
    generation = atomic_load(control, GENERATION)
    if atomic_add(control, ARRIVED, 1) == threads - 1:
        atomic_store(control, ARRIVED, 0)
        atomic_store(control, GENERATION, generation + 1)
        return True
    spins = 0
    while atomic_load(control, GENERATION) == generation:
        if atomic_load(control, ABORT) != 0:
            return False
        spins += 1
        if spins > SPINS:
            yield_core()
    return True


@subroutine
def take_chunk(
    control: Any, size: int, end: int, begin: int = 0, word: int = CHUNK
) -> tuple[int, int]:
    """Take the next ``size`` of the numbers ``begin … end - 1``; begin and end of the chunk.

    It is empty if none is left. Threads share ``word``, which must be 0 at the start. Not a
    generator: numba keeps the state of one in memory, which made a caller's loop slower.
    """
    first = begin + atomic_add(control, word, size)
    return first, min(first + size, end)


class Team:
    """So many ``threads`` that run kernels together; thread 0 is the caller's."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a team needs at least 1 thread, got {threads}")
        self.threads = threads
        self._members: Members | None = None
        # Two launches at once could each hold some of the threads that the other waits for.
        self._one_launch = free_in_child(threading.Lock())

    def launch(self, kernel: Callable[..., None], control: IntArray, *args: object) -> None:
        """Call ``kernel(thread, threads, control, *args)`` on every thread and wait for all.

        Whatever one thread raises (KeyboardInterrupt in the caller's included) makes the others
        leave at their next barrier, and is raised here; MemoryError if no thread can be started.
        """
        if self.threads == 1:
            kernel(0, 1, control, *args)
            return
        with self._one_launch:
            self._launch(kernel, control, *args)

    @property
    def is_free(self) -> bool:
        """Whether nobody launches just now, of those who take turns."""
        return not self._one_launch.locked()

    def try_launch(self, kernel: Callable[..., None], control: IntArray, *args: object) -> bool:
        """As `launch`; but False, at once, if another one is at it."""
        if not self._one_launch.acquire(blocking=False):
            return False
        try:
            self._launch(kernel, control, *args)
        finally:
            self._one_launch.release()
        return True

    def _launch(self, kernel: Callable[..., None], control: IntArray, *args: object) -> None:
        if self.threads == 1:
            kernel(0, 1, control, *args)
            return
        if self._members is None:
            self._members = Members(self.threads - 1, "ooc-graph-team")

        def give_up() -> None:
            control[ABORT] = 1

        is_done = False
        try:
            self._start(give_up, kernel, control, args)
            kernel(0, self.threads, control, *args)
            is_done = True
        finally:
            # No thread is to use the arrays any more.
            errors = self._members.settle(give_up, at_once=not is_done)
        raise_first(errors)

    def _start(
        self,
        give_up: Callable[[], None],
        kernel: Callable[..., None],
        control: IntArray,
        args: tuple[object, ...],
    ) -> None:
        assert self._members is not None
        for thread in range(1, self.threads):
            call = partial(kernel, thread, self.threads, control, *args)
            self._members.give(thread - 1, call, give_up)

    def close(self) -> None:
        """End the threads."""
        members, self._members = self._members, None
        if members is not None:
            members.close()
