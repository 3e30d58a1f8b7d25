"""Build a store: on the CUDA devices of the place if it has any that will do, else on the CPU."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from ooc_graph.edges.interface import EdgeSource, most_rows
from ooc_graph.errors import DeviceBusyError, DiskFullError, MemoryBudgetError, UsageError
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.model.reservation import said_by
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.report.records import host_facts, package_versions
from ooc_graph.report.reporter import note_fallback
from ooc_graph.runtime.devices import device_state, least_share, most_of_others
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.build import build as build_on_cpu
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_into
from ooc_graph.shards.cuda_stages import TABLES, open_device
from ooc_graph.shards.load import Graph
from ooc_graph.shards.resumed import is_begun, writing
from ooc_graph.types import Progress


def build_with_report(
    workplace: Workplace, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> tuple[Graph, BuildReport]:
    """Build a store as `ooc_graph.build` does, of an opened source; give it and its report."""
    options.require_filled(most_rows(source))
    workplace.release()
    report = _build(workplace, source, out, options, progress)
    write_run_facts(out, {"stages": report.stages, "edges": report.edges})
    return Graph.open(out), report


def _build(
    workplace: Workplace, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> BuildReport:
    """Build and commit the store of a graph; its bytes do not depend on the place."""
    why, is_on_device = workplace.device.why, workplace.device.name == CUDA
    if is_on_device and workplace.wanted == AUTO and is_begun(out, source, options):
        why, is_on_device = "a build that was stopped there goes on", False
    if is_on_device:
        try:
            return _on_device(workplace, source, out, options, progress)
        except (UsageError, DeviceBusyError, MemoryBudgetError) as error:
            if workplace.wanted != AUTO or _waits(error, out, source, options):
                raise
            why = str(error)
        except MemoryError as error:
            # Host memory: the CPU may need less of it.
            why = said_by(error)
            if workplace.wanted != AUTO:
                raise MemoryBudgetError(
                    f"building on a CUDA device: {why}; use --device cpu"
                ) from error
    if why:
        note_fallback(progress, ("device", "build", str(out)), f"building on the CPU: {why}")
    with workplace.workforce() as workforce:
        return build_on_cpu(source, out, options=options, workforce=workforce, progress=progress)


def _waits(error: Exception, out: Path, source: EdgeSource, options: BuildOptions) -> bool:
    """Whether to leave a build to the same call later: the CPU would remove what devices made."""
    is_busy = isinstance(error, DeviceBusyError)
    return is_busy and is_begun(out, source, options, CUDA, TABLES)


def _on_device(
    workplace: Workplace, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> BuildReport:
    """Build on the devices of all processes; what is finished stays, as on the CPU."""
    if workplace.client is not None:
        from ooc_graph.edges.dask_parts import DaskSource  # noqa: PLC0415 (imports Dask)

        if isinstance(source, DaskSource) or getattr(source, "in_memory", False):
            raise UsageError(
                "edges in memory, or in a Dask collection, are not sent to workers' devices: "
                "give client=False, or build on the CPU (device='cpu')"
            )
    given = out, source, options, progress, CUDA
    with writing(*given) as partial, workplace.workforce() as workforce:
        # All have what they take of a device by themselves before they are asked what is free.
        workforce.everywhere(open_device)
        return build_into(
            partial,
            source,
            options=options,
            workforce=workforce,
            progress=progress,
            **_shares(workplace),
            host_bytes=workplace.resources(on_cpu=True).least_limit_bytes,
        )


def _shares(workplace: Workplace) -> dict[str, Any]:
    """What each process may take of its device, and of the cores of its host."""
    asked = workplace.cuda_limits.device_bytes
    if isinstance(workplace, ThisProcess):
        return {"device_memory_bytes": asked}
    states = workplace.cluster.ask(device_state).values()
    on_host = Counter(worker.host for worker in workplace.cluster.look().values())
    return {
        "device_memory_bytes": least_share(states, asked),
        "others_bytes": most_of_others(states),
        "on_host": max(on_host.values(), default=1),
    }


def write_run_facts(store: Path, facts: dict[str, Any]) -> None:
    """``NAME.run.json`` beside a store: what varies from run to run and is not hashed."""
    path = store.with_name(f"{store.name.removesuffix('.zarr')}.run.json")
    circumstances = {"host": host_facts(), "packages": package_versions()}
    text = json.dumps({**facts, **circumstances}, indent=1) + "\n"
    # The store stands: a disk that has just filled up is no reason to say that the build failed.
    with suppress(OSError, DiskFullError):
        # Of a store that was replaced.
        path.unlink(missing_ok=True)
        with whole_file(path) as partial:
            partial.write_text(text)
