"""Which device searches: the one asked for, as far as it is there where the work is done."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.peers import identity
from ooc_graph.model.resources import CPU, CUDA, Device, require_name
from ooc_graph.shards.cuda_plan import usable_bytes

WITHOUT_CUPY = "a CUDA device needs CuPy, which is not installed"
"""What `choose_on_workers` says of a machine that nobody has prepared for CUDA."""


def cuda_memory_bytes() -> int:
    """Memory of this process's CUDA device, in bytes, or DeviceError; the device is not opened."""
    cupy = _cuda()
    device = cupy.cuda.Device().id
    if _sizes.get(device, (None,))[0] is not cupy:
        _sizes[device] = cupy, int(_properties(cupy)["totalGlobalMem"])
    return _sizes[device][1]


_sizes: dict[int, tuple[Any, int]] = {}  # by number: the driver takes milliseconds to say it

# The process that used CUDA first.
_cuda_pid: int | None = None
# What is said if CuPy is not installed, once it has been looked for.
_lacks_cupy = ""


def _cuda() -> Any:
    """CuPy, as `kernels.cuda.runtime.modules.cuda` gives it, unless CUDA was used before a fork."""
    global _cuda_pid, _lacks_cupy  # noqa: PLW0603
    if _cuda_pid not in (None, os.getpid()):
        raise DeviceError(
            "this process was forked after CUDA was used, so that it cannot use CUDA: use "
            "multiprocessing's spawn or forkserver start method, or --device cpu"
        )
    if _lacks_cupy and "cupy" not in sys.modules:
        # Python would look for it in all folders, with every search.
        raise DeviceError(_lacks_cupy)
    try:
        found = cuda_modules.cuda()
    except DeviceError as error:
        _lacks_cupy = "" if "cupy" in sys.modules else str(error)
        raise
    _cuda_pid = os.getpid()
    return found


def _properties(cupy: Any) -> dict[str, Any]:
    runtime = cupy.cuda.runtime
    try:
        found: dict[str, Any] = runtime.getDeviceProperties(cupy.cuda.Device().id)
    except runtime.CUDARuntimeError as error:
        raise DeviceError(f"the CUDA device says nothing of itself: {error}") from error
    return found


def choose_in_process(wanted: str) -> Device:
    """Device of this process; DeviceError if ``cuda`` is wanted, and there is none."""
    return choose_on_workers(wanted, lambda look: {"": look()})


def choose_on_workers(wanted: str, ask: Callable[[Callable[..., Any]], dict[str, Any]]) -> Device:
    """Device of all workers of a cluster: CUDA if each of them has one.

    ``ask`` has every worker call a function, and gives the answers by address, which is empty of
    this process. DeviceError names a worker that lacks the device that is wanted.
    """
    require_name(wanted)
    if wanted == CPU:
        return Device(CPU)
    found: dict[str, int | str] = ask(_look)
    without = {address: why for address, why in found.items() if isinstance(why, str)}
    if not without and found:
        return Device(CUDA, min(size for size in found.values() if isinstance(size, int)))
    address, why = min(without.items(), default=("", "no worker answers"))
    if wanted == CUDA:
        raise DeviceError(f"worker {address}: {why}" if address else why)
    # Without the advice, which nobody asked for who said ``auto``.
    return Device(CPU, why=why.partition(": ")[0])


def _look() -> int | str:
    """Bytes of the CUDA device of the process that runs this, or why there is none."""
    try:
        return cuda_memory_bytes()
    except DeviceError as error:
        return str(error)


class DeviceState(NamedTuple):
    """What a process says of its CUDA device: which it is, and bytes of it.

    ``is_plain``: nobody has put an allocator of its own there (RMM), which holds what seems to be
    in use.
    """

    identity: tuple[int, ...]  # tells it from others, on its host and on others
    free_bytes: int
    total_bytes: int
    is_plain: bool


def device_state() -> DeviceState:
    """What this process's CUDA device has now."""
    _cuda()
    host, _, bus = identity()
    return DeviceState((host, bus), *cuda_modules.device_bytes(), cuda_modules.is_plain_pool())


def least_share(states: Iterable[DeviceState], asked: int | None) -> int | None:
    """Device memory for each of some processes, so that those with a device in common divide it.

    That of the process which has least, and no more than is ``asked`` for; None: nearly all that is
    free, since no device is shared.
    """
    free = defaultdict[tuple[int, ...], list[int]](list)
    for state in states:
        if state.is_plain:
            free[state.identity].append(state.free_bytes)
    shares = [usable_bytes(min(each)) // len(each) for each in free.values() if len(each) > 1]
    return min([*shares, *([] if asked is None else [asked])], default=None)


def most_of_others(states: Iterable[DeviceState]) -> int:
    """Bytes that others have of a device, at most, when nothing has begun on it."""
    return max((one.total_bytes - one.free_bytes for one in states if one.is_plain), default=0)


def cuda_facts() -> dict[str, str | int]:
    """What a report says of this process's CUDA device."""
    cupy = _cuda()
    found = _properties(cupy)
    return {
        "CUDA device": found["name"].decode(),
        "CUDA device memory (bytes)": int(found["totalGlobalMem"]),
        "CUDA driver": int(cupy.cuda.runtime.driverGetVersion()),
        "CuPy": str(cupy.__version__),
    }


def cuda_checked() -> dict[str, str]:
    """What `ooc-graph doctor` says of this process's CUDA device; DeviceError if there is none."""
    facts, capability = cuda_facts(), str(_cuda().cuda.Device().compute_capability)
    free, total = cuda_modules.device_bytes()
    version = int(facts["CUDA driver"])
    return {
        "GPU": f"{facts['CUDA device']}, compute capability {capability[:-1]}.{capability[-1]}",
        "GPU memory": f"{free / 2**30:,.1f} GiB free of {total / 2**30:,.1f} GiB",
        "CUDA of the driver": f"{version // 1000}.{version % 1000 // 10}",
        "CuPy": str(facts["CuPy"]),
    }


def device_count() -> int:
    """CUDA devices that this process sees; DeviceError if none can be used."""
    return int(_cuda().cuda.runtime.getDeviceCount())


def has_rmm() -> bool:
    """Whether RMM is there for the device memory of workers; DeviceError if it is of no use."""
    if find_spec("rmm") is None:
        return False
    try:
        import_module("rmm")
    # Libraries that do not fit raise whatever they like.
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise DeviceError(
            f"RMM is installed and cannot be imported ({why}): install it again, remove it (CUDA "
            "workers do without), or use --device cpu"
        ) from error
    return True
