"""What a call leaves open, as Dask's configuration has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ooc_graph.model.resources import AUTO, CPU, NO_LIMITS, CudaLimits, parse_bytes
from ooc_graph.settings import (
    SECTION,
    answer_timeout_s,
    patience_s,
    refusal,
    setting,
    shows_progress,
)


def configured(
    limit_bytes: int | None, wanted: str, limits: CudaLimits
) -> tuple[int | None, str, CudaLimits]:
    """Memory limit, device and its limits: those of a call, or those that are configured."""
    wanted = configured_device(wanted, limits)
    if wanted != CPU:
        device_bytes = configured_bytes("device-memory", limits.device_bytes)
        pinned_bytes = configured_bytes("host-memory", limits.pinned_bytes, or_none=True)
        limits = CudaLimits(device_bytes, pinned_bytes)
    return configured_bytes("memory-limit", limit_bytes), wanted, limits


def configured_device(wanted: str, limits: CudaLimits = NO_LIMITS) -> str:
    """The device that is wanted; of ``auto`` without limits of a device the configured one."""
    if wanted != AUTO or limits != NO_LIMITS:
        return wanted
    found = setting("device")
    if found not in (AUTO, CPU):
        raise refusal("device", "choose auto, which is CUDA where there is a device, or cpu")
    return str(found)


def configured_bytes(name: str, given: int | None, *, or_none: bool = False) -> int | None:
    """A size of memory that is given, or the configured one."""
    if given is not None:
        return given
    return parse_bytes(setting(name), option=f"{SECTION}.{name}", or_none=or_none)


def require_usable(name: str) -> None:
    """Refuse the value of a setting, as the calls do that it is for; by a UsageError."""
    reading: dict[str, Callable[[], Any]] = {
        "answer-timeout": answer_timeout_s,
        "patience": patience_s,
        "progress": shows_progress,
        "device": partial(configured_device, AUTO),
        **{
            size: partial(configured_bytes, size, None)
            for size in ("memory-limit", "device-memory")
        },
        "host-memory": partial(configured_bytes, "host-memory", None, or_none=True),
    }
    if name in reading:
        reading[name]()
