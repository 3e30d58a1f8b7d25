"""Graph500's Kronecker edges on a CUDA device, bit for bit those of `cpu.build.kronecker`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.modules import cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.types import AnyArray

THREAD_BITS = 20
"""log2 of the threads that make edges side by side, each every 2**20-th edge."""
_BLOCK_BITS = 8


def generate_into(
    start: int,
    scale: int,
    seed: AnyArray,
    powers: AnyArray,
    scramble: AnyArray,
    source: Any,
    target: Any,
    weight: Any,
) -> None:
    """Fill arrays of the current device with the edges from number ``start`` on; does not wait.

    ``scale``, log2 of the number of vertices, is at most 32 for ids of 32 bits. ``seed``,
    ``powers`` and ``scramble`` are constants of the generator as
    `cpu.build.kronecker.generate_into` takes them, on the host. ``source`` and ``target``, uint32,
    uint64 or int64 (m,), and ``weight``, float32 (m,) or None, are contiguous on the device, and
    written.
    """
    cupy = cuda()
    bits = 8 * source.dtype.itemsize
    arrays = [source, target, *([] if weight is None else [weight])]
    if source.dtype.kind not in "iu" or bits not in {32, 64} or source.dtype != target.dtype:
        raise UsageError(f"edges on a device take ids of 32 or 64 bits, not {source.dtype}")
    if not all(array.flags.c_contiguous for array in arrays):
        raise UsageError("edges on a device are written to contiguous arrays")
    count = len(source)
    if not count:
        return
    thread_bits = min(THREAD_BITS, (count - 1).bit_length())
    block_bits = min(_BLOCK_BITS, thread_bits)
    numbers = (np.uint64(start), np.uint64(count), np.uint32(scale), np.uint32(thread_bits))
    constants = tuple(cupy.asarray(array) for array in (seed, powers, scramble))
    make = kernel("kronecker.cu", "generate", {"ID": f"u{bits}"})
    where = (source, target, NULL if weight is None else weight)
    make((1 << thread_bits - block_bits,), (1 << block_bits,), (*numbers, *constants, *where))
