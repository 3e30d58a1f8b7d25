"""Distances from many sources: batches over the cores of this process or a cluster's workers."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph import kernel_cache
from ooc_graph.answers.pairs import Asked, pairs_attributes, pairs_specs
from ooc_graph.answers.reductions import HISTOGRAM, Reduced, reduced_dtype
from ooc_graph.answers.result import LevelsResult, PairsResult
from ooc_graph.errors import DiskFullError, UsageError
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CRC_BYTES, REACHED, SIDECAR_BYTES, SOURCE, VERTEX
from ooc_graph.layout.units import Unit, Units
from ooc_graph.session import resident
from ooc_graph.session.devices import CUDA
from ooc_graph.session.pair_tasks import (
    PairsTask,
    prepare,
    refuse_negative_loop,
    solve,
    write_batch,
)
from ooc_graph.session.pairs_plan import Plan, plan_of
from ooc_graph.session.place import Place
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.types import AnyArray, IntArray, Progress


def pairs(
    graph: Graph,
    sources: IntArray,
    asked: Asked,
    *,
    place: Place,
    progress: Progress,
    out: Path | None = None,
    overwrite: bool = False,
) -> PairsResult:
    """Find the distances from sources, given by their places, and give or write them.

    Raises
    ------
    UsageError, MemoryBudgetError, OutputExistsError, NegativeCycleError, InputError, DiskFullError
        Before any distance is written.
    CorruptStoreError
        If a chunk of the graph is not as the manifest says.
    """
    resident.require_same(graph.path, graph.identity)
    graph.require(resident.ORDER_OF[asked.kernel], signed=True)
    if place.wanted == CUDA:
        raise UsageError("many sources are searched from on the CPU only: use --device cpu")
    if not asked.hops:
        refuse_negative_loop(graph)
    width = graph.vertices if asked.targets is None else len(asked.targets)
    specs = pairs_specs(asked, len(sources), width, _dtype(graph, asked))
    if asked.reduce == HISTOGRAM:
        # Refused now, if it does not suit the distances.
        asked.bins.width_for(specs[0].dtype)
    plan = plan_of(graph, specs, asked, place, in_memory=out is None)
    task = PairsTask(str(graph.path), graph.identity, asked, len(sources), plan.lanes, specs)
    if out is None:
        _prepare(task, place, progress)
        start = perf_counter()
        columns = _in_memory(graph, task, plan, sources, place, progress)
        kind = LevelsResult if asked.hops else PairsResult
        return kind(None, perf_counter() - start, columns)
    key = _key(graph, task, sources)
    with partial_store(out, "result", overwrite=overwrite, key=key) as store:
        elapsed_s = _write(graph, task, plan, sources, store, place, progress)
    return replace(PairsResult.open(out), elapsed_s=elapsed_s)


def _prepare(task: PairsTask, place: Place, progress: Progress) -> None:
    with progress.stage("preparing"):
        place.call(prepare, task)


def _dtype(graph: Graph, asked: Asked) -> np.dtype[Any]:
    if asked.hops:
        return np.dtype(np.int32)
    weights = graph.weight_dtype
    return weights if weights is not None and weights.kind == "f" else np.dtype(np.int64)


def _ids(graph: Graph, asked: Asked, sources: IntArray) -> dict[str, IntArray]:
    """Original ids of sources and of columns."""
    originals = graph.original_ids()
    targets = originals if asked.targets is None else originals[asked.targets]
    return {SOURCE: originals[sources], VERTEX: targets}


def _in_memory(
    graph: Graph, task: PairsTask, plan: Plan, sources: IntArray, place: Place, progress: Progress
) -> dict[str, AnyArray]:
    length = plan.chunks * task.spec.chunk
    parts = [sources[start : start + length] for start in range(0, len(sources), length)]
    ids = _ids(graph, task.asked, sources)
    blocks: dict[str, AnyArray] = {}
    if task.asked.reduce is None:
        blocks = {spec.path: np.empty(spec.shape(len(sources)), spec.dtype) for spec in task.specs}
    reduced: list[Reduced] = []

    def take(number: int, found: Any) -> None:
        if task.asked.reduce is not None:
            reduced.extend(found)
            return
        for block, part in zip(blocks.values(), found, strict=True):
            block[number * length :][: len(part)] = part

    if place.client is not None:
        with place.workforce() as workforce:
            items = [(task, part) for part in parts]
            for number, found in enumerate(
                run_all(workforce, progress, task.asked.kernel, solve, items)
            ):
                take(number, found)
    else:
        with progress.stage(task.asked.kernel, len(sources), "sources") as bar:
            for number, part in enumerate(parts):
                take(number, solve(task, part))
                bar.advance(len(part))
    if task.asked.reduce is not None:
        return {SOURCE: ids[SOURCE]} | _reduced_columns(task, reduced)
    return ids | blocks


def _reduced_columns(task: PairsTask, found: Sequence[Reduced]) -> dict[str, AnyArray]:
    assert task.asked.reduce is not None
    dtype = reduced_dtype(task.asked.reduce, task.spec.dtype)
    return {
        REACHED: np.array([one.reached for one in found], np.int64),
        task.asked.reduce: np.array([one.value for one in found], dtype),
    }


def _write(
    graph: Graph,
    task: PairsTask,
    plan: Plan,
    sources: IntArray,
    store: Partial,
    place: Place,
    progress: Progress,
) -> float:
    """Write what is missing and commit; the seconds that it took, but for preparing."""
    units = store.units
    assert units is not None
    done = units.done()
    missing = [index for index in range(task.spec.chunks) if index not in done]
    if done:
        progress.note(f"going on with {len(done):,} of {task.spec.chunks:,} chunks done before")
    if task.asked.reduce is None:
        ids = [
            ArraySpec(name, length, np.dtype(np.int64))
            for name, length in ((SOURCE, len(sources)), (VERTEX, task.spec.width or 0))
        ]
        _require_space(task.specs, len(missing), ids, store)
    # Potentials may take long: what can be refused without them has been by now.
    _prepare(task, place, progress)
    start = perf_counter()
    written = replace(task, folder=str(store.folder), attempt=str(units.attempt))
    items = [
        (written, first, sources[task.spec.bounds(first)[0] : task.spec.bounds(last)[1]])
        for first, last in _runs(missing, plan.chunks)
    ]
    with place.workforce() as workforce:
        run_all(
            workforce,
            progress,
            task.asked.kernel,
            write_batch,
            items,
            total=sum(len(item[-1]) for item in items),
            unit="sources",
            amount=int,
        )
    specs, entries = _collect(graph, task, sources, store, units)
    attributes = pairs_attributes(task.asked, graph.content_sha256, task.spec.dtype)
    store.commit("result", attributes, specs, entries)
    return perf_counter() - start


def _runs(missing: Sequence[int], most: int) -> list[tuple[int, int]]:
    """First and last of stretches of consecutive chunks, ``most`` at a time."""
    runs: list[tuple[int, int]] = []
    for index in missing:
        if runs and runs[-1][1] == index - 1 and index - runs[-1][0] < most:
            runs[-1] = runs[-1][0], index
        else:
            runs.append((index, index))
    return runs


def _require_space(
    specs: Sequence[ArraySpec], chunks: int, columns: Sequence[ArraySpec], store: Partial
) -> None:
    """Refuse what the disk cannot hold: missing chunks, ids, and the crc32c's of all chunks."""
    needed = chunks * sum(spec.chunk * spec.item_bytes + CRC_BYTES for spec in specs)
    for spec in columns:
        needed += spec.chunks * (spec.chunk * spec.item_bytes + CRC_BYTES)
    for spec in (*specs, *columns):
        needed += spec.chunks * CRC_BYTES * -(-spec.chunk * spec.item_bytes // SIDECAR_BYTES)
    free = shutil.disk_usage(store.folder).free
    if needed > free:
        raise DiskFullError(
            f"{store.final}: needs {needed:,} bytes more, and the disk has {free:,} left; free "
            "some space, give fewer sources or targets, or --reduce"
        )


def _collect(
    graph: Graph, task: PairsTask, sources: IntArray, store: Partial, units: Units
) -> tuple[list[ArraySpec], list[FileEntry]]:
    """All arrays of the store, those of single numbers written here."""
    found = units.done()
    done: list[Unit] = [found[index] for index in range(task.spec.chunks)]
    columns = _ids(graph, task.asked, sources)
    specs, entries = list(task.specs), [entry for unit in done for entry in unit.entries]
    if task.asked.reduce is not None:
        specs, pairs_ = (
            [],
            [
                Reduced(value, reached)
                for unit in done
                for value, reached in zip(unit.facts["value"], unit.facts["reached"], strict=True)
            ],
        )
        columns = {SOURCE: columns[SOURCE]} | _reduced_columns(task, pairs_)
    for name, column in columns.items():
        spec = ArraySpec(name, len(column), column.dtype, *column.shape[1:])
        specs.append(spec)
        entries += [
            write_chunk(store.folder, spec, index, [column[slice(*spec.bounds(index))]])
            for index in range(spec.chunks)
        ]
    return specs, entries


def _key(graph: Graph, task: PairsTask, sources: IntArray) -> str:
    """What the bytes of all units follow from."""
    digest = hashlib.sha256()
    told = {
        "package": kernel_cache.source_hash(),
        "kernel": task.asked.kernel,
        "graph": graph.content_sha256,
        "cutoff": task.asked.cutoff,
        "reduce": task.asked.reduce,
        "parents": task.asked.parents,
        "bins": [task.asked.bins.count, task.asked.bins.width],
        "targets": None if task.asked.targets is None else len(task.asked.targets),
    }
    digest.update(json.dumps(told, sort_keys=True).encode())
    digest.update(sources.data)
    if task.asked.targets is not None:
        digest.update(task.asked.targets.data)
    return digest.hexdigest()
