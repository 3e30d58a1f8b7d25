"""Many sources on one CUDA device: all pairs beside this machine's CPU, and Kronecker graphs.

    python benchmarks/gpu_johnson.py random [--vertices 8000] [--plain] [--threads 2]
    python benchmarks/gpu_johnson.py kronecker [--scale 20] [--sources 4096] [--stored 4096]
    python benchmarks/gpu_johnson.py public [--scale 20 | --vertices N [--plain]] [--out FOLDER]

``random``: the graph of ``johnson.py``, float64, all pairs; with potentials that make many weights
negative, unless ``--plain``. The CPU on so many threads and the device take turns, from the same
rows in host memory. The device's time has everything in it: potentials, copies of the rows, new
weights, landmarks, searches, and bringing all distances to host memory. That is page-locked memory
which was there before; times to memory that has pages already, and to new memory, are recorded
beside it, and those of `ooc_graph.johnson`, which has the graph on the device from the call before,
to page-locked and to new memory. Answers are compared byte for byte; those of the function, whose
rows are in another order, to 1e-12.

``kronecker``: Graph500's graph with float32 weights, its rows on the device. Sources are drawn from
the largest component. Times are of preparing (landmarks, arcs that nobody needs) and of reducing
the distances of all sources on the device; GTEPS are input tuples by sources over both together,
and over the reductions alone. Distances of some sources are compared byte for byte with single
searches. Then the distances of ``--stored`` sources, all unless said otherwise, are brought to
page-locked memory, prepared already, and their rate is set beside one plain copy of as many bytes.

``public``: the Kronecker graph, or with ``--vertices`` the random one, through `ooc_graph.johnson`
on the device, in memory, to page-locked memory by ``into=``, with ``out=`` and with ``reduce=``,
beside the class of kernels from rows in host memory (`johnson_public`). Without ``--stored`` all
sources are written, too. The rates of answers in memory are set beside a plain copy of as many
bytes.

Appends to records/gpu_johnson.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import cupy
import gpu_graphs
import johnson
import johnson_public
import numpy as np

import ooc_graph as og
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.common.sides import light_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.bellman_ford_search import potentials
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.kernels.cpu.many.search import plain_rows
from ooc_graph.kernels.cuda.many.host import HostAnswers
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.rows import hold
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.types import AnyArray, Rows

RECORDS = Path(__file__).parent / "records" / "gpu_johnson.jsonl"
RANDOM_STATE = 7
VERTICES = 8000
COMPARED = 64
_TO_HOST = 2


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds until the device is through with some work, and what it gives."""
    cupy.cuda.Device().synchronize()
    begun = perf_counter()
    done = work()
    cupy.cuda.Device().synchronize()
    return perf_counter() - begun, done


def page_locked(shape: tuple[int, int], dtype: Any) -> AnyArray:
    size = shape[0] * shape[1]
    memory = cupy.cuda.alloc_pinned_memory(size * np.dtype(dtype).itemsize)
    array: AnyArray = np.frombuffer(memory, dtype, size).reshape(shape)
    return array


def copy_rate(to: AnyArray) -> float:
    """Bytes a second of plain copies from the device; the median of three."""
    from_ = cupy.zeros(to.nbytes, np.uint8)
    copy = cupy.cuda.runtime.memcpy
    found = [
        timed(lambda: copy(to.ctypes.data, from_.data.ptr, to.nbytes, _TO_HOST))[0]
        for _ in range(4)
    ]
    return to.nbytes / statistics.median(found[1:])


def all_pairs(options: argparse.Namespace) -> None:
    arcs = johnson.random_arcs(options.vertices or VERTICES, negative=not options.plain)
    vertices, u, v, weight = arcs
    out, into = johnson.rows_of(vertices, u, v, weight), johnson.rows_of(vertices, v, u, weight)
    sources, team = np.arange(vertices), Team(options.threads)
    locked = page_locked((vertices, vertices), np.float64)
    paged = np.ones((vertices, vertices))

    def on_device(answer: AnyArray | None) -> AnyArray:
        return CudaJohnson(out, into, threads=cores()).run(sources, answer)

    calls: dict[str, Callable[[], AnyArray]] = {
        "CPU": lambda: CpuJohnson(out, into, team).run(sources),
        "device": lambda: on_device(locked),
        "device, memory with pages": lambda: on_device(paged),
        "device, new memory": lambda: on_device(None),
    }
    graph = johnson.graph_of(arcs)
    for name, room in (("og.johnson", locked), ("og.johnson, new memory", None)):
        calls[name] = johnson.as_called(graph, vertices, device="cuda", into=room)
    CpuJohnson(out, into, team).run(sources[:300])
    for name in list(calls)[1:]:
        calls[name]()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.repeats):
        expected = None
        for name, call in calls.items():
            elapsed_s, answer = timed(call)
            times[name].append(elapsed_s)
            expected = answer if expected is None else expected
            if name.startswith("og."):
                is_right = np.allclose(answer, expected, rtol=0, atol=1e-12)
            else:
                is_right = answer.tobytes() == expected.tobytes()
            if not is_right:
                raise SystemExit(f"{name}: the answers differ")
            del answer
    prepared = CudaJohnson(out, into)
    prepared.expect(vertices)
    search = prepared.search
    searched = [timed(lambda: search.run_on_device(sources))[0] for _ in range(options.repeats)]
    median = {name: statistics.median(found) for name, found in times.items()}
    figures = {
        "times_s": times,
        "median_s": median,
        "searches_on_the_device_s": searched,
        "device_is_faster_by": {n: median["CPU"] / s for n, s in median.items() if n != "CPU"},
        "potentials_s": potentials_s(out, options.repeats),
        "copy_bytes_per_s": copy_rate(locked),
    }
    for name, seconds in median.items():
        print(f"{name:26s} {seconds * 1e3:9.2f} ms, {median['CPU'] / seconds:7.1f} times the CPU")
    print(f"searches alone, prepared   {statistics.median(searched) * 1e3:9.2f} ms")
    parameters = {
        "vertices": vertices,
        "arcs": len(u),
        "negative_arcs": int((weight < 0).sum()),
        "cpu_threads": options.threads,
    }
    record(options, "gpu_johnson_all_pairs", parameters, figures)


def potentials_s(out: Rows, repeats: int) -> list[float] | None:
    """Times of finding potentials on the CPU, on one thread; None where none are needed."""
    if out.weights is None or out.weights.min(initial=0) >= 0:
        return None
    plain = plain_rows(out)
    return [timed(lambda: potentials(plain))[0] for _ in range(repeats)]


def kronecker(options: argparse.Namespace) -> None:
    edges = Kronecker(options.scale, weighted=True)
    graph = gpu_graphs.build(edges, gpu_graphs.generate(edges, True), "sssp")
    rows = gpu_graphs.rows_of(graph, "sssp")
    gpu_graphs.free_memory()
    single = gpu_graphs.new_search(graph, "sssp", named=False)
    reached = cupy.flatnonzero(cupy.isfinite(single.run_on_device(0).distance)).get()
    random = np.random.default_rng(RANDOM_STATE)
    sources = random.choice(reached, options.sources, replace=False).astype(np.int64)
    expected = np.stack([single.run(int(s)).distance for s in sources[:COMPARED]])
    del single
    held, prepare_s, reduce_s = hold(rows, weighted=True), [], []
    for turn in range(options.repeats + 1):
        search = CudaManySearch(held, held)
        prepared, _ = timed(lambda search=search: search.expect(len(sources)))
        reduced, parts = timed(lambda search=search: search.reduce(sources))
        if turn:
            prepare_s.append(prepared)
            reduce_s.append(reduced)
    compare(search, sources, expected, parts)
    prepared, reduced = statistics.median(prepare_s), statistics.median(reduce_s)
    edges_searched = edges.edges * len(sources)
    figures: dict[str, Any] = {
        "prepare_s": prepare_s,
        "reduce_s": reduce_s,
        "gteps": edges_searched / (prepared + reduced) / 1e9,
        "gteps_of_reductions": edges_searched / reduced / 1e9,
        "needed_arcs": len(search.core.row),
        "core_rows": search.core.rows,
    }
    print(
        f"scale {options.scale}, {len(sources):,} sources: prepared in {prepared * 1e3:.2f} ms, "
        f"reduced in {reduced * 1e3:.2f} ms: {figures['gteps']:.0f} GTEPS, "
        f"{figures['gteps_of_reductions']:.0f} of reductions alone"
    )
    answer = page_locked((min(options.stored or len(sources), len(sources)), held.rows), np.float32)
    answers = HostAnswers(search, 1)
    stored = [
        timed(lambda: answers.run(sources[: len(answer)], answer))[0]
        for _ in range(options.repeats + 1)
    ][1:]
    if answer[:COMPARED].tobytes() != expected[: len(answer)].tobytes():
        raise SystemExit("the stored distances differ")
    rate, plain = answer.nbytes / statistics.median(stored), copy_rate(answer)
    figures |= {
        "stored_sources": len(answer),
        "stored_s": stored,
        "stored_bytes_per_s": rate,
        "copy_bytes_per_s": plain,
        "share_of_copy": rate / plain,
    }
    print(
        f"distances of {len(answer):,} sources to host memory: {rate / 1e9:.1f} GB/s, a plain copy "
        f"{plain / 1e9:.1f} GB/s: {rate / plain:.0%}"
    )
    parameters = {
        "scale": options.scale,
        "edges": edges.edges,
        "rows": held.rows,
        "arcs": held.arcs,
        "sources": len(sources),
    }
    record(options, "gpu_johnson_kronecker", parameters, figures)


def public(options: argparse.Namespace) -> None:
    with TemporaryDirectory(dir=options.out, prefix="johnson-public-") as name:
        folder = Path(name)
        if options.vertices is None:
            source: Any = Kronecker(options.scale, weighted=True)
        else:
            source = johnson.random_arcs(options.vertices, negative=not options.plain)[1:]
        # Of arrays the way of the arcs has to be said, of Kronecker's edges it is known.
        said = {} if options.vertices is None else {"directed": True}
        graph = og.build(source, folder / "g.zarr", **said)
        random = np.random.default_rng(RANDOM_STATE)
        count = min(options.sources, graph.rows)
        sources = random.choice(graph.rows, count, replace=False).astype(np.int64)
        shard = graph.load("light", signed=True)
        sides = light_rows(shard)
        calls = johnson_public.PublicCalls(
            graph,
            CudaJohnson(*sides, threads=cores()).run,
            sources,
            stored=options.stored or count,
            device="cuda",
            out=folder / "d.zarr",
            room=page_locked,
        )
        figures = johnson_public.measure(
            calls,
            options.repeats,
            lambda size_bytes: copy_rate(page_locked((1, size_bytes), np.uint8)),
        )
    if options.vertices is None:
        edges = source.edges * count
        figures["gteps_of_reductions"] = edges / figures["median_s"][johnson_public.REDUCED] / 1e9
        print(f"{figures['gteps_of_reductions']:.0f} GTEPS of reductions")
    scale = None if options.vertices else options.scale
    parameters = johnson_public.parameters_of(graph, scale, count, options.stored or count)
    record(options, "gpu_johnson_public", parameters, figures)


def compare(search: CudaManySearch, sources: AnyArray, expected: AnyArray, parts: AnyArray) -> None:
    """End where distances are not those of single searches, or their reductions do not fit."""
    found = np.ascontiguousarray(search.run_on_device(sources[:COMPARED]).get())
    if found.tobytes() != expected.tobytes():
        raise SystemExit("the distances are not those of single searches")
    near = np.isfinite(expected)
    largest = np.where(near, expected, 0).max(axis=1)
    mine = parts[:COMPARED]
    if (mine["reached"] != near.sum(axis=1)).any() or (mine["largest"] != largest).any():
        raise SystemExit("the reductions are not those of the distances")


def record(
    options: argparse.Namespace, name: str, parameters: dict[str, Any], figures: dict[str, Any]
) -> None:
    told = {
        "benchmark": name,
        "parameters": parameters | {"random_state": RANDOM_STATE},
        "device": gpu_graphs.device_facts(),
        "source_commit": options.commit,
        "figures": figures,
    }
    append_record(options.records, told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", choices=["random", "kronecker", "public"])
    parser.add_argument("--vertices", type=int, help=f"of the random graph [{VERTICES}]")
    parser.add_argument("--plain", action="store_true", help="no negative weights")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--sources", type=int, default=4096)
    parser.add_argument("--stored", type=int, help="of them, with distances written [all]")
    parser.add_argument("--out", type=Path, help="folder for what is written [a temporary one]")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    {"random": all_pairs, "kronecker": kronecker, "public": public}[options.graph](options)


if __name__ == "__main__":
    main()
