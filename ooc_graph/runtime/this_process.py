"""The calling process, where searches and builds are carried out without a cluster."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from ooc_graph.model.resources import (
    AUTO,
    CPU,
    CUDA,
    NO_LIMITS,
    CudaLimits,
    Device,
    Resources,
    require_name,
)
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.devices import WITHOUT_CUPY, choose_in_process
from ooc_graph.runtime.machine import default_limit_bytes, return_freed_memory
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.threads import Threads, cores

Done = TypeVar("Done")

LOG = logging.getLogger("ooc_graph")


class Offer(ABC):
    """What offers memory and devices to searches; ``wanted`` is the device that is asked for."""

    is_limited: bool
    has_client = False

    def __init__(self, wanted: str, cuda_limits: CudaLimits) -> None:
        require_name(wanted)
        self.wanted, self.cuda_limits = wanted, cuda_limits

    @cached_property
    def device(self) -> Device:
        """Device that all processes have; looked for when it is first asked for.

        Why it is the CPU is only logged if CuPy is not installed, and no limit is given for what it
        would allocate.
        """
        found = self._choose_device()
        if found.why == WITHOUT_CUPY and self.cuda_limits == NO_LIMITS:
            LOG.info(found.why)
            found = replace(found, why="")
        return self.cuda_limits.within(found)

    @abstractmethod
    def _choose_device(self) -> Device:
        """As `device`, with all of its memory."""

    def _resources(
        self, on_cpu: bool, limit_bytes: int, limits: list[int], threads: int
    ) -> Resources:
        """What processes with such limits offer now; ``on_cpu``: no device is looked for."""
        return Resources(
            self.wanted,
            Device(CPU) if on_cpu else self.device,
            self.cuda_limits,
            limit_bytes=limit_bytes,
            process_limit_bytes=max(limits),
            least_limit_bytes=min(limits),
            is_limited=self.is_limited,
            processes=len(limits),
            threads=threads,
            has_ranks=self.has_client,
            has_client=self.has_client,
        )


class ThisProcess(Offer):
    """The calling process and all its cores; no cluster, no port."""

    client = None
    note = staticmethod(LOG.warning)
    with_lost = staticmethod(lambda _lost: None)

    def __init__(
        self,
        limit_bytes: int | None = None,
        wanted: str = AUTO,
        cuda_limits: CudaLimits = NO_LIMITS,
    ) -> None:
        super().__init__(wanted, cuda_limits)
        self._limit_bytes = limit_bytes
        self.is_limited = limit_bytes is not None

    @property
    def limit_bytes(self) -> int:
        """The limit, or what is free now; 0 if a control group has nothing left."""
        return default_limit_bytes() if self._limit_bytes is None else self._limit_bytes

    def _choose_device(self) -> Device:
        return choose_in_process(self.wanted)

    def resources(self, *, on_cpu: bool = False) -> Resources:
        """What this process brings now; ``on_cpu``: no device is looked for."""
        limit_bytes = self.limit_bytes
        return self._resources(on_cpu, limit_bytes, [limit_bytes], cores())

    def release(self) -> None:
        """Forget what searches keep in this process, and give back what that frees."""
        engine_cache.release()

    @contextmanager
    def workforce(self) -> Iterator[Workforce]:
        """Threads, one for each core."""
        return_freed_memory()
        with Threads(cores(), thread_name_prefix="ooc-graph") as executor:
            budget = BuildBudget(self.limit_bytes, 1, cores())
            yield Workforce(executor, budget, lambda function: function())

    def call(self, function: Callable[..., Done], *arguments: Any) -> Done:
        """Call it."""
        return function(*arguments)


def planned(limit_bytes: int, name: str = CPU, cuda_limits: CudaLimits = NO_LIMITS) -> Resources:
    """What one process would bring to a search; of a device with a limit there need be none."""
    device = Device(name, cuda_limits.device_bytes or 0)
    if name == CUDA and cuda_limits.device_bytes is None:
        device = choose_in_process(CUDA)
    offered = ThisProcess(limit_bytes, name, cuda_limits).resources(on_cpu=True)
    # A command may start ranks on workers of the CPU.
    return replace(offered, device=device, has_ranks=name == CPU)
