"""What a run of Graph500 leaves: output block, page, data and a record."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ooc_graph.errors import ValidationFailedError
from ooc_graph.graph500.run import Run, Searched
from ooc_graph.graph500.tiers import with_disk
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.model.resources import CUDA
from ooc_graph.report.data import (
    DegreeHistogram,
    EnergyRecord,
    LevelRecord,
    ReportData,
    SearchRecord,
    Validation,
    write_report_data,
)
from ooc_graph.report.graph500 import Graph500Result, by_part, output_block
from ooc_graph.report.memory_watch import MemoryWatch, thinned
from ooc_graph.report.records import append_record, host_facts, package_versions
from ooc_graph.runtime.devices import cuda_facts
from ooc_graph.runtime.same_graph import open_same
from ooc_graph.shards.build_options import BuildReport
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray


@dataclass
class Outcome:
    """Figures of a run."""

    block: str  # Graph500's output block
    page: Path  # the report
    summary: tuple[str, ...]  # a line for each kernel: seconds by part
    failure: str | None = None  # first broken rule, or None


def degree_histogram(path: str, identity: str) -> tuple[AnyArray, AnyArray]:
    """Degrees (tuples at a vertex) and how many vertices have each, isolated ones included."""
    graph = open_same(path, identity)
    degree, count = np.unique(graph.tuples(), return_counts=True)
    isolated = graph.vertices - graph.rows
    if isolated:
        degree, count = np.insert(degree, 0, 0), np.insert(count, 0, isolated)
    return degree, count


FILES = "report.html", "report.json", "output.txt"
"""What a run writes anew in its folder, besides the graph."""


def leave_report(
    run: Run,
    graph: Graph,
    built: BuildReport,
    searched: dict[str, list[Searched]],
    watch: MemoryWatch,
    command: Sequence[str],
    energy: Sequence[EnergyRecord] = (),
) -> Outcome:
    """Write everything into the run's folder; ``energy`` if it was measured."""
    from ooc_graph.report.page import write_page  # noqa: PLC0415 - matplotlib takes a second

    records = [_record(kernel, one) for kernel, found in searched.items() for one in found]
    failure = _failure(searched, run.options.validate)
    status: Literal["passed", "failed"] = "passed" if failure is None else "failed"
    device = run.workplace.call(cuda_facts) if run.workplace.device.name == CUDA else {}
    degrees = run.workplace.call(degree_histogram, str(graph.path), graph.identity)
    block = _block(run, built, records, failure is None)
    data = ReportData(
        title=f"Graph500, scale {run.options.scale}",
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=shlex.join(command),
        parameters=_parameters(run),
        graph=_graph_facts(graph),
        machine={name: _scalar(value) for name, value in {**host_facts(), **device}.items()},
        packages=package_versions(),
        graph_arcs=graph.arcs,
        searches=tuple(records),
        stages=tuple(run.stages),
        memory=thinned(watch.samples),
        memory_limit_bytes=run.workplace.limit_bytes,
        memory_baseline_bytes=watch.baseline_bytes,
        degree_histogram=DegreeHistogram.of(*degrees),
        output_block=block,
        validation=Validation(status if run.options.validate else "skipped", failure or ""),
        energy=tuple(energy),
        tiers=with_disk(run, graph, searched),
        parts={kernel: _parts(run, kernel, found) for kernel, found in searched.items()},
    )
    page, numbers, text = (run.folder / name for name in FILES)
    write_page(page, data)
    write_report_data(numbers, data)
    with whole_file(text) as partial:
        partial.write_text(block)
    append_record(
        run.folder / "records.jsonl", _json_record(run, graph, built, data, watch, device)
    )
    summary = tuple(f"{kernel}: {_in_words(parts)}" for kernel, parts in data.parts.items())
    return Outcome(block, page, summary, failure)


def _parts(run: Run, kernel: str, found: list[Searched]) -> dict[str, float]:
    """Seconds of a kernel by part; answers are ordered or written in the rest of its searches."""
    spans = dict.fromkeys(("plan", "warm-up", "searches"), 0.0)
    for stage in run.stages:
        name = stage.name.removeprefix(f"{kernel} ")
        if name != stage.name and name in spans:
            spans[name] += stage.duration_s
    load_s = sum(one.load_s for one in found)
    search_s = sum(one.trace.elapsed_s for one in found)
    validation_s = sum(one.validate_s for one in found)
    later_s = sum(one.later_s for one in found)
    return {
        "plan": spans["plan"],
        "load": spans["warm-up"] + load_s,
        "search": search_s,
        "order or write": max(
            0.0, spans["searches"] - load_s - search_s - (validation_s - later_s)
        ),
        "validation": validation_s,
    }


def _in_words(parts: Mapping[str, float]) -> str:
    share = parts["validation"] / sum(parts.values())
    return f"{by_part(parts)} ({share:.0%} of all)"


def _record(kernel: str, one: Searched) -> SearchRecord:
    levels = tuple(LevelRecord(v, arcs, direction) for v, arcs, direction in one.trace.levels)
    validate_s = one.validate_s if one.verdict is not None else None
    found = kernel, one.root, one.trace.elapsed_s, one.edges, one.reached, validate_s, levels
    if (read := one.io_stats) is None:
        return SearchRecord(*found)
    return SearchRecord(*found, read.bytes, read.rows, read.reading_s, read.waited_s)


def _failure(searched: dict[str, list[Searched]], validated: bool) -> str | None:
    """First broken rule; the validator's count of edges must equal the search's own."""
    if not validated:
        return None
    for kernel, found in searched.items():
        for one in found:
            try:
                _check(one)
            except ValidationFailedError as error:
                return f"{kernel}: {error}"
    return None


def _check(one: Searched) -> None:
    if one.verdict is None:
        raise ValidationFailedError(f"the answer of root {one.root} was not validated")
    one.verdict.raise_if_failed()
    if one.verdict.edges != one.edges:
        raise ValidationFailedError(
            f"root {one.root}: {one.edges} edges were reported, the input has "
            f"{one.verdict.edges} between the vertices reached"
        )


def _block(run: Run, built: BuildReport, records: list[SearchRecord], valid: bool) -> str:
    options = run.options
    return output_block(
        Graph500Result(
            scale=options.scale,
            edge_factor=options.edge_factor,
            searches=options.searches,
            generation_s=built.read_s,
            processes=run.workplace.resources(on_cpu=True).processes,
            construction_s=built.elapsed_s - built.read_s,
            records=tuple(records),
            valid=valid,
        )
    )


def _parameters(run: Run) -> dict[str, Any]:
    options = {name: _scalar(value) for name, value in asdict(run.options).items()}
    sizes = {
        "device memory limit (bytes)": run.workplace.cuda_limits.device_bytes,
        "host memory limit for rows (bytes)": run.workplace.cuda_limits.pinned_bytes,
    }
    return {
        **options,
        "device": run.workplace.device.name,
        "worker processes": run.workplace.resources(on_cpu=True).processes,
        "memory limit (bytes)": run.workplace.limit_bytes,
        **{name: size for name, size in sizes.items() if size is not None},
    }


def _graph_facts(graph: Graph) -> dict[str, Any]:
    return {
        "vertices": graph.vertices,
        "vertices with arcs": graph.rows,
        "edges (input tuples)": graph.edges,
        "self-loops": graph.attributes["self_loops"],
        "arcs stored": graph.arcs,
        "shards": graph.shards,
        "row orders": ", ".join(graph.attributes["row_orders"]),
        **({"compressed": "yes"} if graph.attributes.get("compressed") else {}),
        "manifest SHA-256": graph.identity,
    }


def _scalar(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return value


def _json_record(
    run: Run,
    graph: Graph,
    built: BuildReport,
    data: ReportData,
    watch: MemoryWatch,
    device: dict[str, str | int],
) -> dict[str, Any]:
    return {
        "benchmark": "graph500",
        "parameters": dict(data.parameters),
        "device": device,
        "graph": dict(data.graph),
        "build_s": built.elapsed_s,
        "build_stages": built.stages,
        "edges_per_s": built.edges / built.elapsed_s,
        "searches": [asdict(search) for search in data.searches],
        "stages": [asdict(stage) for stage in run.stages],
        "memory_peak_bytes": watch.peak_bytes - watch.baseline_bytes,
        "validation": asdict(data.validation) if data.validation else None,
        "energy": [asdict(kernel) for kernel in data.energy],
        "arcs": graph.arcs,
        "parts": data.parts,
        "tiers": {kernel: dict(facts) for kernel, facts in data.tiers.items()},
    }
