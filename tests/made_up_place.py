"""Processes with CUDA devices that are described, and are not there."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ooc_graph.model.resources import CUDA, CudaLimits, Device, Resources
from ooc_graph.runtime.workplace import Here
from tests.quiet_client import QuietClient


class CudaHere(Here):
    """This process, with a device of as much memory as the limits say.

    Parameters
    ----------
    limit_bytes
        Host memory.
    cuda_limits
        Those of the device, with its memory.
    """

    def __init__(self, limit_bytes: int, cuda_limits: CudaLimits) -> None:
        super().__init__(limit_bytes, CUDA, cuda_limits)

    @cached_property
    def device(self) -> Device:
        """The device that is described."""
        return Device(CUDA, self.cuda_limits.device_bytes or 0)


class TwoWorkers(CudaHere):
    """Two workers with a device each, of which nothing is asked but what they have."""

    client = QuietClient()  # type: ignore[assignment]
    has_ranks = True
    processes = 2

    def resources(self, *, on_cpu: bool = False) -> Resources:
        """What both bring."""
        found = super().resources(on_cpu=on_cpu)
        return replace(found, processes=2, has_ranks=True, has_client=True)
