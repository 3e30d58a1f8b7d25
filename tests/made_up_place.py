"""Processes with CUDA devices that are described, and are not there."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA, CudaLimits, Device, Resources
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search.plan import Plan, plan
from ooc_graph.shards.load import Graph
from tests.quiet_client import QuietClient


class CudaHere(ThisProcess):
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

    def resources(self, *, on_cpu: bool = False) -> Resources:
        """What both bring."""
        found = super().resources(on_cpu=on_cpu)
        return replace(found, processes=2, has_ranks=True, has_client=True)


def plan_for(graph: Graph, kernel: str, resources: Resources, **asked: Any) -> Plan:
    """The plan of a search; ``asked`` is of the request."""
    return plan(graph, Request(kernel, **asked), resources)


def chosen(graph: Graph, kernel: str, resources: Resources, **asked: Any) -> Reservation:
    """What a search would hold; ``asked`` is of the request."""
    return plan_for(graph, kernel, resources, **asked).reserved
