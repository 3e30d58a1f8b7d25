"""Build a store: on a CUDA device where the place has one that will do, else on the CPU."""

from __future__ import annotations

from pathlib import Path

from ooc_graph.edges.dask_parts import DaskSource
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels import cuda_modules
from ooc_graph.session.devices import AUTO, CUDA
from ooc_graph.session.place import Here, Place
from ooc_graph.shards.build import BuildOptions, BuildReport
from ooc_graph.shards.build import build as build_on_cpu
from ooc_graph.shards.cuda_build import build_on_device
from ooc_graph.types import NoProgress, Progress


def build(
    place: Place, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> BuildReport:
    """Build and commit the store of a graph; its bytes do not depend on the place.

    Raises
    ------
    DeviceError, DeviceBusyError
        CUDA was asked for, and is not there or others use it.
    OocGraphError
        As `ooc_graph.shards.build.build` and `ooc_graph.shards.cuda_build.build_on_device`.
    """
    why = place.device.why
    if place.device.name == CUDA:
        try:
            return _on_device(place, source, out, options, progress)
        except (MemoryBudgetError, DeviceBusyError, UsageError) as error:
            if place.wanted != AUTO:
                raise
            why = str(error)
    if why:
        progress.note(f"building on the CPU: {why}")
    with place.workforce() as workforce:
        return build_on_cpu(source, out, options=options, workforce=workforce, progress=progress)


def _on_device(
    place: Place, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> BuildReport:
    if isinstance(source, DaskSource):
        raise UsageError(
            "Dask collections are read by all workers: a store of them is built on the CPU"
        )
    if place.client is None:
        return build_here(source, out, options, place.limit_bytes, progress)
    with progress.stage("building on a CUDA device"):
        return place.call(build_here, source, out, options, place.process_limit_bytes)


def build_here(
    source: EdgeSource,
    out: Path,
    options: BuildOptions,
    limit_bytes: int,
    progress: Progress | None = None,
) -> BuildReport:
    """Build on the device of this process, which is a worker or has no cluster."""
    cuda_modules.open_device()
    try:
        with Here(limit_bytes, CUDA).workforce() as workforce:
            return build_on_device(
                source,
                out,
                options=options,
                workforce=workforce,
                progress=progress or NoProgress(),
            )
    finally:
        cuda_modules.free_unused()
