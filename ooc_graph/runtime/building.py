"""Build a store: on a CUDA device where the place has one that will do, else on the CPU."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ooc_graph.edges.interface import EdgeSource, most_rows
from ooc_graph.errors import DeviceBusyError, DiskFullError, MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.model.reservation import said_by
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.report.records import host_facts, package_versions
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.build import build as build_on_cpu
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_into
from ooc_graph.shards.cuda_plan import usable_bytes
from ooc_graph.shards.load import Graph
from ooc_graph.shards.resumed import is_begun
from ooc_graph.types import NoProgress, Progress

# A device of which others have more than one part in so many is not at our disposal.
_OTHERS_PART = 4


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
            if workplace.wanted != AUTO:
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
        progress.note(f"building on the CPU: {why}")
    with workplace.workforce() as workforce:
        return build_on_cpu(source, out, options=options, workforce=workforce, progress=progress)


def _on_device(
    workplace: Workplace, source: EdgeSource, out: Path, options: BuildOptions, progress: Progress
) -> BuildReport:
    if workplace.client is not None:
        from ooc_graph.edges.dask_parts import DaskSource  # noqa: PLC0415 (imports Dask)

        if isinstance(source, DaskSource) or getattr(source, "in_memory", False):
            raise UsageError(
                "edges in memory, or in a Dask collection, are not sent to one worker's device: "
                "give client=False, or build on the CPU (device='cpu')"
            )
    with partial_store(out, "graph", overwrite=options.overwrite) as partial:
        allowed = workplace.cuda_limits.device_bytes
        if workplace.client is None:
            return build_in_process(
                partial, source, options, workplace.limit_bytes, allowed, progress
            )
        with progress.stage("building on a CUDA device"):
            host_bytes = workplace.resources(on_cpu=True).process_limit_bytes
            report = workplace.call(build_in_process, partial, source, options, host_bytes, allowed)
        for note in report.notes:
            progress.note(note)
        return report


def build_in_process(
    partial: Partial,
    source: EdgeSource,
    options: BuildOptions,
    limit_bytes: int,
    allowed_bytes: int | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Build on the device of this process, which is a worker or has no cluster.

    ``limit_bytes`` is host memory. ``allowed_bytes`` of the device may be used, as far as they are
    free; None: nearly all that is. An allocator of its own (RMM) holds what seems to be in use, so
    all that is allowed is used. If ``progress`` is None, notes are in the report.
    """
    free, total = cuda_modules.device_bytes()
    if allowed_bytes is not None and cuda_modules.is_plain_pool():
        allowed_bytes = min(allowed_bytes, usable_bytes(free))
    noted = _Noted()
    try:
        with ThisProcess(limit_bytes, CUDA).workforce() as workforce:
            report = build_into(
                partial,
                source,
                options=options,
                workforce=workforce,
                progress=progress or noted,
                device_memory_bytes=allowed_bytes,
            )
            report.notes = noted.notes
            return report
    except MemoryBudgetError as error:
        if (total - free) * _OTHERS_PART > total:
            raise DeviceBusyError(
                f"{error}; others use {total - free:,} of the device's {total:,} bytes: try again "
                "when they are done"
            ) from error
        raise
    except BaseException as error:
        cuda_modules.forget_frames(error)
        raise
    finally:
        with suppress(MemoryError):
            cuda_modules.free_unused()


class _Noted(NoProgress):
    """Keeps what there is to say."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


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
