"""Many sources on one CUDA device: all pairs beside this machine's CPU, and Kronecker graphs.

    python benchmarks/gpu_johnson.py random [--vertices 8000] [--plain] [--threads 2]
    python benchmarks/gpu_johnson.py kronecker [--scale 20] [--sources 4096] [--stored 4096]
    python benchmarks/gpu_johnson.py public [--scale 20 | --vertices N [--plain]] [--folder DIR]

``random``: the graph of ``johnson.py``, float64, all pairs; with potentials that make many weights
negative, unless ``--plain``. The CPU and the device take turns, from the same rows in host memory.
The device's time has everything in it: potentials, copies of the rows, new weights, landmarks,
searches, and bringing all distances to page-locked memory. Times to memory that has pages already,
and to new memory, stand beside it, and those of `ooc_graph.johnson`, which has the graph on the
device from the call before. Answers are compared byte for byte; those of the function, whose rows
are in another order, to 1e-12.

``kronecker``: Graph500's graph with float32 weights, its rows on the device. Times are of preparing
(landmarks, arcs that nobody needs) and of reducing the distances of all sources on the device;
GTEPS are input tuples by sources over both together, and over the reductions alone. Distances of
some sources are compared byte for byte with single searches. Those of ``--stored`` sources are
brought to page-locked memory, their rate beside one plain copy of as many bytes.

``public``: the Kronecker graph, or with ``--vertices`` the random one, through `ooc_graph.johnson`
on the device, beside the class of kernels from rows in host memory (`johnson_stored`).
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import johnson
import johnson_stored
import numpy as np
from harness import device
from harness.device import DeviceProgram, copy_rate, free_memory, page_locked, timed
from harness.graphs import RANDOM_STATE, both_sides, random_arcs
from harness.timing import medians, repeated, same_bytes, take_turns

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.common.dealt import light_rows
from ooc_graph.kernels.common.many.bellman_ford_search import potentials
from ooc_graph.kernels.common.sssp.rows import plain_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.kernels.cuda.many.host import HostAnswers
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.rows import rows_on_device
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, Rows

VERTICES = 8000
COMPARED = 64


def seconds(call: Callable[[], Any], repeats: int) -> list[float]:
    """Times of a call on the device, all of which count."""
    return [timed(call).elapsed_s for _ in range(repeats)]


def all_pairs(program: DeviceProgram, options: argparse.Namespace) -> None:
    arcs = random_arcs(options.vertices or VERTICES, negative=not options.plain)
    vertices, u, _, weight = arcs
    sides = both_sides(arcs)
    sources, team = np.arange(vertices), Team(options.threads)
    locked = page_locked((vertices, vertices), np.float64)
    paged = np.ones((vertices, vertices))

    def on_device(answer: AnyArray | None) -> AnyArray:
        return CudaJohnson(*sides, threads=cores()).run(sources, answer)

    calls: dict[str, Callable[[], AnyArray]] = {
        "CPU": lambda: CpuJohnson(*sides, team).run(sources),
        "device": lambda: on_device(locked),
        "device, memory with pages": lambda: on_device(paged),
        "device, new memory": lambda: on_device(None),
    }
    graph = johnson.graph_of(arcs)
    for name, room in (("og.johnson", locked), ("og.johnson, new memory", None)):
        calls[name] = johnson.as_called(graph, vertices, device="cuda", into=room)
    CpuJohnson(*sides, team).run(sources[:300])
    for name in list(calls)[1:]:
        calls[name]()
    same, expected = same_bytes(), np.empty(0)

    def check(name: str, answer: AnyArray) -> None:
        nonlocal expected
        if not name.startswith("og."):
            same(name, answer)
            expected = answer if name == "CPU" else expected
        elif not np.allclose(answer, expected, rtol=0, atol=1e-12):
            raise SystemExit(f"{name}: the answers differ")

    times = take_turns(calls, options.repeats, check=check, clock=timed).times_s
    prepared = CudaJohnson(*sides)
    prepared.expect(vertices)
    median = medians(times)
    figures = {
        "times_s": times,
        "median_s": median,
        "searches_on_the_device_s": seconds(
            lambda: device.distances(prepared.search, sources), options.repeats
        ),
        "device_is_faster_by": {n: median["CPU"] / s for n, s in median.items() if n != "CPU"},
        "potentials_s": potentials_s(sides[0], options.repeats),
        "copy_bytes_per_s": copy_rate(locked),
    }
    negative = int((weight < 0).sum())
    parameters = {"vertices": vertices, "arcs": len(u), "negative_arcs": negative}
    parameters |= {"cpu_threads": options.threads, "random_state": RANDOM_STATE}
    program.record(parameters, figures, "gpu_johnson_all_pairs")


def potentials_s(out: Rows, repeats: int) -> list[float] | None:
    """Times of finding potentials on the CPU, on one thread; None where none are needed."""
    if out.weights is None or out.weights.min(initial=0) >= 0:
        return None
    plain = plain_rows(out)
    return seconds(lambda: potentials(plain), repeats)


def kronecker(program: DeviceProgram, options: argparse.Namespace) -> None:
    edges = Kronecker(options.scale, weighted=True)
    graph = device.build_kronecker(edges, "sssp")
    rows = graph.rows
    free_memory()
    single = device.new_search(graph, "sssp", original_parents=False)
    sources = device.connected_sources(single, options.sources)
    expected = np.stack([single.run(int(s)).distance for s in sources[:COMPARED]])
    del single
    held, prepare_s, reduce_s = rows_on_device(rows, weighted=True), [], []
    for turn in range(options.repeats + 1):
        search = CudaManySearch(held, held)
        prepared = timed(lambda search=search: search.expect(len(sources)))
        reduced = timed(lambda search=search: search.reduce(sources))
        if turn:
            prepare_s.append(prepared.elapsed_s)
            reduce_s.append(reduced.elapsed_s)
    compare(search, sources, expected, reduced.result)
    answer = page_locked((min(options.stored or len(sources), len(sources)), held.rows), np.float32)
    answers, some = HostAnswers(search, 1), sources[: len(answer)]
    store = repeated(lambda: answers.run(some, answer), options.repeats, timed)
    stored = [one.elapsed_s for one in store]
    if answer[:COMPARED].tobytes() != expected[: len(answer)].tobytes():
        raise SystemExit("the stored distances differ")
    prepared_s, reduced_s = statistics.median(prepare_s), statistics.median(reduce_s)
    edges_searched = edges.edges * len(sources)
    rate, plain = answer.nbytes / statistics.median(stored), copy_rate(answer)
    figures = {
        "prepare_s": prepare_s,
        "reduce_s": reduce_s,
        "gteps": edges_searched / (prepared_s + reduced_s) / 1e9,
        "gteps_of_reductions": edges_searched / reduced_s / 1e9,
        "needed_arcs": len(search.core.row),
        "core_rows": search.core.rows,
        "stored_sources": len(answer),
        "stored_s": stored,
        "stored_bytes_per_s": rate,
        "copy_bytes_per_s": plain,
        "share_of_copy": rate / plain,
    }
    parameters = {"scale": options.scale, "edges": edges.edges, "rows": held.rows}
    parameters |= {"arcs": held.arcs, "sources": len(sources), "random_state": RANDOM_STATE}
    program.record(parameters, figures, "gpu_johnson_kronecker")


def public(program: DeviceProgram, options: argparse.Namespace) -> None:
    def locked_copy_rate(size_bytes: int) -> float:
        return copy_rate(page_locked((1, size_bytes), np.uint8))

    with program.scratch() as folder:
        graph = johnson_stored.stored_graph(options, folder / "g.zarr", negative=not options.plain)
        sides = light_rows(graph.load("light", signed=True))
        kernels = CudaJohnson(*sides, threads=cores()).run
        more = {"device": "cuda", "room": page_locked, "copy_rate": locked_copy_rate}
        parameters, figures = johnson_stored.measure(graph, kernels, options, **more)
    if options.vertices is None:
        edges = Kronecker(options.scale).edges * parameters["sources"]
        figures["gteps_of_reductions"] = edges / figures["median_s"][johnson_stored.REDUCED] / 1e9
    program.record(parameters, figures, "gpu_johnson_public")


def compare(search: CudaManySearch, sources: AnyArray, expected: AnyArray, parts: AnyArray) -> None:
    """End where distances are not those of single searches, or their reductions do not fit."""
    found = np.ascontiguousarray(device.distances(search, sources[:COMPARED]).get())
    if found.tobytes() != expected.tobytes():
        raise SystemExit("the distances are not those of single searches")
    near = np.isfinite(expected)
    largest = np.where(near, expected, 0).max(axis=1)
    mine = parts[:COMPARED]
    if (mine["reached"] != near.sum(axis=1)).any() or (mine["largest"] != largest).any():
        raise SystemExit("the reductions are not those of the distances")


WAYS = {"random": all_pairs, "kronecker": kronecker, "public": public}


def main() -> None:
    program = DeviceProgram(
        "gpu_johnson", __doc__, vertices=None, scale=20, sources=4096, stored=None, repeats=3,
        threads=2, folder=None,
    )  # fmt: skip
    program.add("graph", choices=WAYS)
    program.add("--plain", action="store_true", help="no negative weights")
    options = program.parse()
    WAYS[options.graph](program, options)


if __name__ == "__main__":
    main()
