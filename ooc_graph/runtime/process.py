"""What this process brings to searches: its threads, and its devices."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.forked import abandon, free_in_child, in_child, is_parents
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.threads import cores

Answer = TypeVar("Answer")

_lock = free_in_child(threading.RLock())
_devices: dict[str, Any] = {}


@in_child
def _leave_cuda() -> None:
    abandon(_devices.pop(CUDA, None))


def without_traceback(do: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call a function; if it is refused memory, raise an error without the frames that hold memory.

    An error keeps them for as long as somebody keeps the error, on a worker until the client has
    forgotten the task. MemoryError says that the host has none; the others, perhaps, a device.
    """
    try:
        return do(*arguments)
    except (MemoryError, MemoryBudgetError, DeviceBusyError) as error:
        # NumPy's and CuPy's own are made of other arguments.
        kind: type[Exception] = MemoryError if isinstance(error, MemoryError) else type(error)
        said = str(error)
    raise kind(said)


def thread_count() -> int:
    """Threads a search may use in this process: the Dask worker's, or all cores."""
    worker = dask_worker()
    return cores() if worker is None else int(worker.state.nthreads)


def dask_worker() -> Any:
    """The Dask worker that runs the calling task, None outside of one.

    Nobody is a worker who has not imported ``distributed``, which takes a third of a second.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker  # noqa: PLC0415

    try:
        worker = get_worker()
    except ValueError:
        return None
    return None if is_parents(worker) else worker


def worker_address() -> str:
    """Address of the Dask worker that this is; empty if it is none."""
    worker = dask_worker()
    return "" if worker is None else str(worker.address)


def device(name: str = CPU) -> Any:
    """A device of this process, ``cpu`` or ``cuda``, made when first asked for."""
    with _lock:
        if name not in _devices:
            _devices[name] = _cpu_device() if name == CPU else _cuda_device()
        return _devices[name]


def _cpu_device() -> Any:
    from ooc_graph.kernels.cpu.device import CpuDevice  # noqa: PLC0415 (imports numba)

    return CpuDevice(thread_count())


def _cuda_device() -> Any:
    from ooc_graph.kernels.cuda.device import CudaDevice  # noqa: PLC0415 (where there is one)

    cuda_modules.open_device()
    return CudaDevice()


def number_of(device_name: str) -> str:
    """Number of the current CUDA device, which alone can use what was loaded there."""
    return str(cuda_modules.cuda().cuda.Device().id) if device_name == CUDA else ""


def forget_build() -> None:
    """Give back what a build has left on a CUDA device, unless it goes on."""
    # To import it would import numba; nothing is left where nobody did so.
    if (builds := sys.modules.get("ooc_graph.shards.cuda_worker")) is not None:
        builds.forget_idle()


def free_unused() -> None:
    """Give back what nothing here uses: of host memory, and of a CUDA device that was asked for."""
    give_back_freed_memory()
    with _lock:
        if CUDA in _devices:
            cuda_modules.free_unused()
