"""Graphs and searches on one CUDA device, as its benchmarks want them."""

from __future__ import annotations

from threading import Event, Thread
from time import perf_counter
from typing import Any

import cupy
import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.build.rows import DeviceGraph, build_rows
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch

ORDER = {"bfs": "hub", "sssp": "light"}


def device_facts() -> dict[str, Any]:
    """Device and versions."""
    runtime = cupy.cuda.runtime
    found = runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "name": found["name"].decode(),
        "memory_bytes": found["totalGlobalMem"],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }


def seconds(work: Any) -> tuple[Any, float]:
    """What some work on the device gives, and how long it takes."""
    cupy.cuda.Device().synchronize()
    begun = perf_counter()
    done = work()
    cupy.cuda.Device().synchronize()
    return done, perf_counter() - begun


def free_memory() -> None:
    cupy.get_default_memory_pool().free_all_blocks()


def generate(kronecker: Kronecker, weighted: bool) -> tuple[Any, Any, Any]:
    source, target = (cupy.empty(kronecker.edges, np.uint32) for _ in range(2))
    weight = cupy.empty(kronecker.edges, np.float32) if weighted else None
    kronecker.generate_into(0, source, target, weight)
    return source, target, weight


def build(kronecker: Kronecker, edges: tuple[Any, Any, Any], kernel: str) -> DeviceGraph:
    return build_rows(*edges, vertices=kronecker.vertices, orders=(ORDER[kernel],))


def rows_of(graph: DeviceGraph, kernel: str) -> Any:
    return graph.out_hub if kernel == "bfs" else graph.out_light


def new_search(graph: DeviceGraph, kernel: str, *, named: bool = True, **options: bool) -> Any:
    """A search whose parents are original ids, or internal ones unless ``named``."""
    rows = rows_of(graph, kernel)
    names = {"original_of": graph.original_of} if named else {}
    if kernel == "bfs":
        return CudaBfsSearch(rows, rows, **{"count_arcs": False, **options}, **names)
    return CudaSsspSearch(rows, rows, graph.tuples, **names)


def measure_of(tree: Any, kernel: str) -> Any:
    """Levels or distances."""
    return tree.level if kernel == "bfs" else tree.distance


def reached_of(tree: Any, kernel: str) -> Any:
    """Whether each vertex was reached."""
    if kernel == "sssp":
        return cupy.isfinite(tree.distance)
    return tree.level != (255 if tree.level.dtype == np.uint8 else -1)


class DeviceWatch:
    """Context that sees how many more bytes of the device are taken than when it began."""

    def __init__(self, interval_s: float = 0.002) -> None:
        self._interval_s, self._over = interval_s, Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._free = self._begun = _free_bytes()

    def __enter__(self) -> DeviceWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def peak_bytes(self) -> int:
        """Most at any moment that was looked at, by anybody."""
        return self._begun - self._free

    def _look(self) -> None:
        while not self._over.wait(self._interval_s):
            self._free = min(self._free, _free_bytes())


def _free_bytes() -> int:
    return int(cupy.cuda.runtime.memGetInfo()[0])
