"""The validator's own kernels for CUDA devices, compiled by CuPy when first wanted.

Apart from `kernels`, as the validator shares no code with what it checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.errors import DeviceError, MemoryBudgetError
from ooc_graph.validate.batch import BATCH_ANSWERS

SOURCE = Path(__file__).parent / "cuda" / "rules.cu"
OPTIONS = ("-std=c++17", "-lineinfo")
THREADS = 256
"""Threads of a block."""
FOUR = 4
"""Answers that one thread looks at; a batch has room for a multiple of these, or for one."""
MEASURES = {"uint8": "u8", "int32": "int", "float32": "float", "float64": "double", "int64": "i64"}
IDS = {"uint32": "u32", "int64": "i64"}
"""What the source calls the types of levels and distances, and of ids."""
NARROW = np.dtype(np.uint32)


def cuda() -> Any:
    """The module CuPy; `DeviceError` if it is not installed."""
    try:
        import cupy  # noqa: PLC0415
    except ImportError as error:
        raise DeviceError("validation on a CUDA device needs CuPy, which is not there") from error
    return cupy


def text() -> str:
    """The source; messages of the compiler name our file."""
    return f'#line 1 "ooc_graph/validate/cuda/{SOURCE.name}"\n{SOURCE.read_text(encoding="utf-8")}'


def options(
    measure: np.dtype[Any], ids: np.dtype[Any] = NARROW, group: int = FOUR
) -> tuple[str, ...]:
    """Options that the source is compiled with for levels or distances of a type.

    Parents, or ends of tuples, are uint32 or int64. A thread looks at a group of answers, one or
    `FOUR`.
    """
    types = f"-DMEASURE={MEASURES[measure.name]}", f"-DID={IDS[ids.name]}"
    return (*OPTIONS, *types, f"-DGROUP={group}")


def kernel(
    function: str, measure: np.dtype[Any], ids: np.dtype[Any] = NARROW, group: int = FOUR
) -> Any:
    """A kernel for the current device, compiled with such `options`."""
    return _module(cuda().cuda.Device().id, measure, ids, group).get_function(function)


@cache
def _module(device: int, *given: Any) -> Any:  # noqa: ARG001 (key)
    return cuda().RawModule(code=text(), options=options(*given), backend="nvrtc")


@cache
def multiprocessors(device: int) -> int:
    """Multiprocessors of a device."""
    found = cuda().cuda.runtime.getDeviceProperties(device)
    return int(found["multiProcessorCount"])


def free_bytes() -> int:
    """Memory of the current device that is free or waits in CuPy's pool."""
    cupy = cuda()
    free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
    return int(free)


@contextmanager
def within_memory() -> Iterator[None]:
    """Raise a `MemoryBudgetError` of one line if what is allocated inside does not fit.

    It is free again once the error is dropped.
    """
    try:
        yield
    except MemoryError as error:
        cupy = cuda()
        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
        raise MemoryBudgetError(
            f"validating these answers does not fit the device: {error}; {free:,} of its "
            f"{total:,} bytes are free"
        ) from error


_ID_BYTES = 4
_USUAL: dict[str, np.dtype[Any]] = {"bfs": np.dtype(np.uint8), "sssp": np.dtype(np.float32)}


def bytes_per_answer(vertices: int, kernel: str, measure: np.dtype[Any] | None = None) -> int:
    """Device memory of an answer; ``measure`` None: levels below 255, or distances of float32."""
    return vertices * (_ID_BYTES + (measure or _USUAL[kernel]).itemsize)


def largest_batch(
    vertices: int,
    kernel: str,
    measure: np.dtype[Any] | None = None,
    *,
    free: int | None = None,
    beside: int = 0,
) -> int:
    """Answers that the device's memory has room for: a multiple of 4, at most 64; or 1.

    ``free`` is the bytes that are free (None: as many as the current device has), and ``beside``
    those wanted for something else, such as a block of edges. If not even one answer fits, that is
    a `MemoryBudgetError`.
    """
    left = (free_bytes() if free is None else free) - beside - vertices * _ID_BYTES  # links
    least = bytes_per_answer(vertices, kernel, measure)
    if left < least:
        raise MemoryBudgetError(
            f"validation of {vertices:,} vertices wants {least:,} bytes on the device at least; "
            f"{max(0, left):,} are free for it"
        )
    return int(max(1, min(BATCH_ANSWERS, FOUR * (left // (FOUR * least)))))
