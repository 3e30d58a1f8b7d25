"""The main job: Graph500 generated, built, searched, validated and reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import DiskFullError
from ooc_graph.graph500.batches import require_budget
from ooc_graph.graph500.on_host import WARM_UP
from ooc_graph.graph500.report import FILES, Outcome, leave_report
from ooc_graph.graph500.run import Graph500Options, Run, refuse_few_keys, search_keys
from ooc_graph.graph500.searches import search_all
from ooc_graph.graph500.waiting import Waiting
from ooc_graph.layout.names import HUB
from ooc_graph.layout.outputs import make_folder
from ooc_graph.layout.whole_file import disk_full_reported, raise_if_full
from ooc_graph.model.resources import AUTO, CPU, CudaLimits
from ooc_graph.report.data import Stage
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.report.needed import require_figures
from ooc_graph.runtime.building import build_with_report
from ooc_graph.runtime.compile_ahead import COMPILER_BYTES, compile_ahead
from ooc_graph.runtime.compile_parts import parts_of_graph500
from ooc_graph.runtime.workplace import workplace_for
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.load import Graph
from ooc_graph.threads import cores
from ooc_graph.types import NoProgress, Progress

if TYPE_CHECKING:
    from distributed import Client


def graph500(
    options: Graph500Options,
    folder: Path,
    *,
    client: Client | None,
    memory_limit_bytes: int | None,
    device: str = AUTO,
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
    progress: Progress,
    overwrite: bool,
    command: Sequence[str] = (),
) -> Outcome:
    """Run Graph500's benchmark and leave graph, records and report in ``folder``.

    The sizes of memory are as of `ooc_graph.build` and `ooc_graph.bfs`. The outcome's block says
    that there are no results if an answer broke a rule. UsageError: sizes that are none, or are
    given for the CPU. MemoryBudgetError: says how much memory is needed.
    """
    require_figures("graph500's report")
    limits = CudaLimits.of(device_memory, host_memory).require_cuda(device)
    workplace = workplace_for(client, memory_limit_bytes, device, limits, progress)
    run = Run(options, folder, workplace, progress)
    weighted = "sssp" in options.kernels
    source = Kronecker(
        options.scale, edge_factor=options.edge_factor, seeds=options.seeds, weighted=weighted
    )
    refuse_few_keys(source, options.searches)
    offered = workplace.resources()
    if offered.device.name == CPU and offered.processes == 1:
        require_budget(source, options, offered.process_limit_bytes)
    with disk_full_reported(folder / "graph.zarr"):
        make_folder(folder)
    with progress.stage("compiling kernels (once on a machine)"):
        if workplace.device.name == CPU:
            parts = parts_of_graph500(source, options.kernels, options.validate)
            compilers = min(cores(), max(1, offered.process_limit_bytes // COMPILER_BYTES))
            # A process that has compiled many parts takes the memory of two.
            for batch in [parts] if compilers > 1 else [[part] for part in parts]:
                workplace.call(partial(compile_ahead, batch, processes=compilers, least=1))
        _warm_up(run, source)
    with MemoryWatch(origin_s=run.begun) as watch:
        graph, built = _build(run, source, overwrite)
        keys = run.timed("search keys", lambda: search_keys(graph, source, options.searches))
        searched, energy, waiting = {}, [], Waiting()
        for kernel in options.kernels:
            searched[kernel], measured = search_all(run, graph, source, kernel, keys, waiting)
            energy += measured
        # Validation, and the page, have the memory that searches would keep.
        run.workplace.release()
        waiting.validate(run, source)
        searched = waiting.with_verdicts(searched)
    return leave_report(run, graph, built, searched, watch, command, energy=energy)


def _warm_up(run: Run, source: Kronecker) -> None:
    """Build a tiny graph of the same kind, so that no figure has compilation in it."""
    with (
        _reporting_full_folder(run.folder),
        TemporaryDirectory(prefix=WARM_UP, dir=run.folder) as scratch,
    ):
        tiny = replace(source, scale=min(source.scale, 8))
        options = BuildOptions(shards=2, compress=run.options.compress)
        store = Path(scratch) / "tiny.zarr"
        graph, _ = build_with_report(run.workplace, tiny, store, options, NoProgress())
        if options.compress:
            # Not before rows are loaded would what unpacks them be compiled.
            graph.load(HUB)


@contextmanager
def _reporting_full_folder(folder: Path) -> Iterator[None]:
    """Context in which errors for want of space name the run's folder, not one that is removed."""
    with disk_full_reported(folder / "graph.zarr"):
        try:
            yield
        except DiskFullError as error:
            raise_if_full(error.__cause__, folder / "graph.zarr")
            raise


def _build(run: Run, source: Kronecker, overwrite: bool) -> tuple[Graph, BuildReport]:
    start = perf_counter() - run.begun
    store, options = run.folder / "graph.zarr", run.options.building(overwrite=overwrite)
    graph, built = build_with_report(run.workplace, source, store, options, run.progress)
    for name in FILES:
        # Of the graph that was there: a run that is stopped leaves none.
        (run.folder / name).unlink(missing_ok=True)
    run.stages += [Stage(name, start + a, start + b) for name, a, b in built.stages]
    return graph, built
