"""What is chosen for searches over a grid of graphs, requests, devices and budgets.

    python -m tests.choices

records it in ``choices.json.gz``, which `tests.unit.test_choices` compares with what is chosen now.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import ooc_graph as og
from ooc_graph.errors import OocGraphError
from ooc_graph.layout.stored import ArraySpec, Stored
from ooc_graph.model.rank_memory import ranks_bytes as device_ranks_bytes
from ooc_graph.model.request import Job, Request
from ooc_graph.model.resources import AUTO, CPU, CUDA, CudaLimits, Device, Resources
from ooc_graph.model.strategy import MEMORY
from ooc_graph.runtime.this_process import planned
from ooc_graph.search.plan import Plan, plan
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.ranks import ranks_bytes

RECORDED = Path(__file__).with_name("choices.json.gz")
PLENTY = 1 << 40


class Case(NamedTuple):
    """What is asked, and of which processes."""

    kernel: str
    exchange: str
    method: str
    on_device: bool
    resources: Resources


def graphs(folder: Path) -> dict[str, og.Graph]:
    """Graphs that differ in what may be done with them."""
    random = np.random.default_rng(3)
    ends = (3000 * random.random((2, 40_000)) ** 3).astype(np.int64)
    weight = random.random(40_000).astype(np.float32)
    path = np.arange(20_000)
    return {
        "kronecker": og.build(og.Kronecker(10), folder / "k.zarr", rows="both"),
        "directed, float64": og.build(
            (*ends, weight.astype(np.float64)),
            folder / "d.zarr",
            rows="both",
            directed=True,
            shards=4,
        ),
        "flat weights": og.build(
            (*ends, np.ones(40_000, np.float32)),
            folder / "f.zarr",
            rows="both",
            shards=2,
            directed=True,
        ),
        "path": og.build(
            (path, path + 1, 1 + path % 7), folder / "p.zarr", rows="both", shards=2, directed=True
        ),
        "no store": og.from_edges(*ends, weight),
    }


def cases(graph: og.Graph) -> Iterator[Case]:
    """Requests, each with processes whose memory is just enough for something, or just not."""
    for kernel in ("bfs", "sssp", "components"):
        for resources in itertools.chain(_on_cpus(graph, kernel), _on_devices(graph, kernel)):
            yield Case(kernel, "auto", "rows", False, resources)
            if resources.cuda_limits.pinned_bytes is None:
                yield Case(kernel, "scheduler", "rows", False, resources)
                if kernel != "components":
                    yield Case(kernel, "auto", "edges", False, resources)
            if kernel != "components":
                yield Case(kernel, "auto", "rows", True, resources)


def _on_cpus(graph: og.Graph, kernel: str) -> Iterator[Resources]:
    one = planned(PLENTY)
    two = replace(one, processes=2, has_client=True)
    here = replace(one, has_ranks=False)
    sizes = {resident_bytes(graph, kernel), resident_bytes(graph, kernel, copies=False)}
    sizes |= {ranks_bytes(Job(graph, Request(kernel), two))}
    if cpu_disk.has_tiers(graph, kernel):
        least = cpu_disk.least_within(graph, kernel)
        sizes |= {least, least + _answer_bytes(graph)}
    for place, size, wanted in itertools.product((here, one, two), sorted(sizes), (CPU, AUTO)):
        for limit in (size - 1, size):
            yield _with(place, limit, wanted=wanted)


def _on_devices(graph: og.Graph, kernel: str) -> Iterator[Resources]:
    if kernel == "components":
        yield _cuda(PLENTY, None, PLENTY, 1)
        return
    sizes = {cuda_memory.cuda_bytes(graph, kernel)}
    sizes |= {device_ranks_bytes(graph, kernel, range(graph.shards))}
    sizes |= {device_ranks_bytes(graph, kernel, range(-(-graph.shards // 2)))}
    if cuda_pinned.may_pin(graph, kernel):
        sizes |= {
            cuda_pinned.least_device_bytes(graph, kernel, original_parents=n) for n in (False, True)
        }
    if cuda_disk.may_stay(graph, kernel):
        sizes |= {cuda_disk.least_device_bytes(graph, kernel)}
    pinned = cuda_pinned.pinned_bytes(graph, kernel)
    host = graph.resident_bytes("hub" if kernel == "bfs" else "light") + 48 * graph.rows
    for size, limit, there, processes in itertools.product(
        sorted(sizes), (None, 0, pinned - 1, pinned), (1 << 16, pinned, host, PLENTY), (1, 2)
    ):
        for device_bytes in (size - 1, size):
            for wanted in (CUDA, AUTO):
                yield replace(_cuda(device_bytes, limit, there, processes), wanted=wanted)


def _cuda(device_bytes: int, pinned: int | None, host: int, processes: int) -> Resources:
    found = _with(planned(PLENTY), host, wanted=CUDA)
    limits = CudaLimits(device_bytes, pinned)
    many = processes > 1
    return replace(
        found,
        device=Device(CUDA, device_bytes),
        cuda_limits=limits,
        processes=processes,
        has_ranks=many,
        has_client=many,
    )


def _with(resources: Resources, limit: int, **changes: Any) -> Resources:
    limits = {
        "limit_bytes": limit * resources.processes,
        "process_limit_bytes": limit,
        "least_limit_bytes": limit,
    }
    return replace(resources, **limits, **changes)


def _answer_bytes(graph: og.Graph) -> int:
    return 20 * graph.vertices


def outcome(graph: og.Graph, case: Case) -> str:
    """What is chosen, or the error, without the folder of the graph."""
    try:
        found = planned_for(graph, case)
    except OocGraphError as error:
        return f"{type(error).__name__}: {error}".replace(str(graph.path), "G")
    held, is_in_memory = found.reserved, found.strategy.tier == MEMORY
    budget_bytes = 0
    if not is_in_memory:
        budget_bytes = held.device_bytes if found.device == CUDA else held.host_bytes
    copies = held.copies or held.strategy != "cpu/memory"
    host_bytes = held.host_bytes if held.strategy == "cuda/disk" else None
    strategy = held.strategy.replace(", ", ",")
    said = [strategy, held.exchange, str(budget_bytes), str(copies), str(host_bytes)]
    why = found.why.removeprefix(f"{case.kernel} on the CPU: ").replace(str(graph.path), "G")
    return " ".join([*said, why]).strip()


def planned_for(graph: og.Graph, case: Case) -> Plan:
    """As a search plans, or components do."""
    answer_bytes = _answer_bytes(graph) if case.kernel != "components" else 0
    request = Request(case.kernel, case.exchange, case.method, answer_bytes, case.on_device)
    return plan(graph, request, case.resources)


def outcomes(folder: Path, every: int = 1) -> dict[str, list[str]]:
    """How every `every`-th case of each graph and kernel ends, in their order."""
    found: dict[str, list[str]] = {}
    made, spec = graphs(folder), Stored.spec

    @cache
    def read_once(path: Path, array: str) -> ArraySpec:
        return spec(by_path[path], array)

    by_path = {graph.path: graph.stored for graph in made.values()}
    # These stores do not change, and each plan would read the same files again.
    with patch.object(Stored, "spec", lambda stored, array: read_once(stored.path, array)):
        for name, graph in made.items():
            for kernel, some in itertools.groupby(cases(graph), lambda case: case.kernel):
                chosen = itertools.islice(some, 0, None, every)
                found[f"{name}, {kernel}"] = [outcome(graph, case) for case in chosen]
    return found


def recorded() -> dict[str, list[str]]:
    """What was chosen when it was recorded."""
    found: dict[str, list[str]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def main() -> None:
    with TemporaryDirectory() as folder:
        found = json.dumps(outcomes(Path(folder)), indent=0).encode()
        RECORDED.write_bytes(gzip.compress(found, mtime=0))


if __name__ == "__main__":
    main()
