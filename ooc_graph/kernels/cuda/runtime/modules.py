"""CUDA sources of this package, compiled and loaded for the current device when first wanted.

CuPy is imported here, and by the validator for itself, and not before a device is asked for.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from ooc_graph.errors import DeviceBusyError, DeviceError, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.compilation import compiled, source

OPTIONS = ("-std=c++17", "-lineinfo")
LEAST_CAPABILITY = 80
"""Compute capability times ten: older devices lack sums over a warp in one instruction."""

# cudaErrorMemoryAllocation, cudaErrorDevicesUnavailable
_BUSY = (2, 46)

THREADS = 512
"""Threads of a block in kernels that do not choose their own number."""


def definitions(constants: Mapping[str, int | str]) -> tuple[str, ...]:
    """Compiler options that set constants of a source."""
    return tuple(f"-D{name}={value}" for name, value in sorted(constants.items()))


def cuda() -> Any:
    """The module CuPy, once it and a device are there.

    If CuPy, a driver or a device is missing, or the current device is older than
    `LEAST_CAPABILITY`, that is a `DeviceError`, whose message says what to do.
    """
    try:
        import cupy  # noqa: PLC0415
    except ImportError as error:
        raise DeviceError(
            "a CUDA device needs CuPy, which is not installed: pip install 'ooc-graph[cuda13]', "
            "or [cuda12] where the driver is of CUDA 12"
        ) from error
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"no CUDA device can be used: {error}; see whether nvidia-smi lists one, and install "
            "NVIDIA's driver where it does not"
        ) from error
    if not found:
        raise DeviceError("no CUDA device is there, or CUDA_VISIBLE_DEVICES hides all of them")
    _require_capable(cupy, cupy.cuda.Device().id)
    return cupy


def open_device() -> Any:
    """As `cuda`, with the current device at hand: it takes some of its memory for this process."""
    cupy = cuda()
    runtime = cupy.cuda.runtime
    try:
        runtime.free(0)
    except runtime.CUDARuntimeError as error:
        if error.status in _BUSY:
            raise DeviceBusyError(
                f"the CUDA device is in use by others ({error}): try again when they are done, or "
                "use --device cpu"
            ) from error
        raise DeviceError(f"the CUDA device cannot be used ({error}): use --device cpu") from error
    return cupy


def device_bytes() -> tuple[int, int]:
    """Bytes of the current device's memory that this thread can have, and of all of it."""
    cupy = open_device()
    free, total = cupy.cuda.runtime.memGetInfo()
    free += cupy.get_default_memory_pool().free_bytes()
    # Asked for by its name: its module imports this one.
    limited: Any = getattr(cupy.cuda.get_allocator(), "__self__", None)
    return (limited.free_within(free) if hasattr(limited, "free_within") else free), total


def require_memory(needed_bytes: int, what: str) -> None:
    """Refuse what never fits the device (`MemoryBudgetError`), or not now (`DeviceBusyError`)."""
    free, total = device_bytes()
    if needed_bytes > total:
        raise MemoryBudgetError(
            f"{what} needs {needed_bytes:,} bytes of device memory, and the device has {total:,}: "
            "use a larger device, more workers, or --device cpu"
        )
    if needed_bytes > free:
        raise DeviceBusyError(
            f"{what} needs {needed_bytes:,} bytes of device memory, and {free:,} of {total:,} are "
            "free: others use the rest; try again when they are done"
        )


def forget_frames(error: BaseException) -> None:
    """Drop what the functions that an error has left still hold, and its causes' too."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def is_of_host(error: MemoryError) -> bool:
    """Whether it was surely host memory that was refused: an array of NumPy's.

    CuPy's sort raises Python's own error, which may be either's.
    """
    return type(error).__module__.partition(".")[0] == "numpy"


def free_unused() -> None:
    """Give back what this process's pools keep, of both memories; waits for the device."""
    cupy = cuda()
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    # The driver's own pool, which RMM uses, gives back when the device is waited for.
    cupy.cuda.Device().synchronize()


@cache
def _require_capable(cupy: Any, device: int) -> None:
    found = cupy.cuda.Device(device).compute_capability
    if int(found) < LEAST_CAPABILITY:
        raise DeviceError(
            f"CUDA device {device} has compute capability {found[:-1]}.{found[-1]}: "
            f"{LEAST_CAPABILITY // 10}.{LEAST_CAPABILITY % 10} is the least that will do"
        )


def kernel(
    name: str,
    function: str,
    constants: Mapping[str, int | str] | None = None,
    *,
    cooperative: bool = False,
) -> Any:
    """A kernel of a source for the current device; compiled once a device and constants.

    ``constants`` set what the source defines only if nobody else did. All blocks of a
    ``cooperative`` launch run at the same time.
    """
    device = cuda().cuda.Device().id
    module = _module(device, name, definitions(constants or {}), cooperative)
    return module.get_function(function)


@cache
def _module(device: int, name: str, defined: tuple[str, ...], cooperative: bool) -> Any:
    cupy = cuda()
    architecture = f"-arch=sm_{cupy.cuda.Device(device).compute_capability}"
    code = compiled(cupy.cuda.nvrtc, source(name), name, (*OPTIONS, architecture, *defined))
    return cupy.RawModule(path=str(code), enable_cooperative_groups=cooperative)


@cache
def limits(device: int) -> tuple[int, int]:
    """Multiprocessors of a device, and the bytes of shared memory that one block may have."""
    found = cuda().cuda.runtime.getDeviceProperties(device)
    return found["multiProcessorCount"], found["sharedMemPerBlockOptin"]


SHARED_RESERVE = 2048
"""Shared memory that kernels and the system take beside what is asked for."""


def on_all(
    name: str,
    function: str,
    constants: Mapping[str, int | str],
    threads: int,
    shared_bytes: int,
    *,
    most_shared_bytes: int = 0,
) -> Callable[[tuple[Any, ...]], None]:
    """A kernel as `kernel` gives it, to be called with its arguments.

    It is launched cooperatively, with one block of so many threads on each multiprocessor.
    ``most_shared_bytes`` is what any caller with the same constants takes, where that differs: all
    of them share the kernel, and what was allowed to it last.
    """
    found = kernel(name, function, constants, cooperative=True)
    found.max_dynamic_shared_size_bytes = max(shared_bytes, most_shared_bytes)
    blocks, _ = limits(cuda().cuda.Device().id)

    def launch(arguments: tuple[Any, ...]) -> None:
        found((blocks,), (threads,), arguments, shared_mem=shared_bytes)

    return launch


def blocks_for(count: int, most: int = 1 << 30) -> int:
    """Blocks of `THREADS` threads, one thread for each of ``count``, at least one block."""
    return max(1, min(most, -(-count // THREADS)))


def launch(
    name: str,
    function: str,
    count: int,
    *arguments: Any,
    constants: Mapping[str, int | str] | None = None,
    most: int = 1 << 30,
) -> None:
    """Launch a kernel with a thread for each of ``count``, in ``most`` blocks at most."""
    kernel(name, function, constants)((blocks_for(count, most),), (THREADS,), arguments)


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Say in one line what did not fit if the device's memory runs out.

    `MemoryBudgetError` takes the place of CuPy's own error; what was allocated inside is free again
    once that is dropped. An array of NumPy's that is refused host memory raises `MemoryError` as
    ever.
    """
    cupy = cuda()
    try:
        yield
    except MemoryError as error:  # CuPy's own is one; its sort raises the plain one
        if is_of_host(error):
            raise
        forget_frames(error)
        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
        raise MemoryBudgetError(
            f"{what} does not fit the device: {error}; {free:,} of its {total:,} bytes are free; "
            "use a larger device, more --device-memory, or --device cpu"
        ) from error


def is_limited() -> bool:
    """Whether somebody has limited the device memory that this thread may have."""
    cupy = cuda()
    allocator: Any = getattr(cupy.cuda.get_allocator(), "__self__", None)
    return hasattr(allocator, "free_within") or bool(cupy.get_default_memory_pool().get_limit())


def is_plain_pool() -> bool:
    """Whether memory comes from CuPy's own pool, and nobody has limited that."""
    cupy = cuda()
    shared = cupy.get_default_memory_pool()
    return bool(cupy.cuda.get_allocator() == shared.malloc and not shared.get_limit())
