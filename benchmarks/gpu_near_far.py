"""Near-far on one CUDA device: small rounds done by one block, or all rounds by the whole grid.

    python benchmarks/gpu_near_far.py [--searches 12] [--data DIR]

Both ways hold the same rows and search from the same sources in turn; the answers are compared byte
for byte. Times are by events, until parents and distances stand in device memory. Printed are
medians; the record has every time, and how many rounds were done by one block and by the grid.
Appends to records/gpu_near_far.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import ooc_graph as og
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.types import AnyArray, Shard

RECORDS = Path(__file__).parent / "records" / "gpu_near_far.jsonl"
RANDOM_STATE = 5
ROADS = {
    "road NY": "dimacs9-road/USA-road-d.NY.gr.gz",
    "road BAY, no weights": "dimacs9-topology/BAY.pace.gr.gz",
    "road Rome": "dimacs9-road/rome99.gr",
}
WAYS: dict[str, dict[str, int | str]] = {
    "one block": {},
    # A front of one entry: the grid does nearly every round, and sorts out whatever waits.
    "grid": {"FRONT": 1, "FRONT_FAR": 1},
}


def road(path: Path) -> Shard:
    """A road network of the reference data, with the weights of its file."""
    source = og.open_source(path)
    blocks = [block for unit in source.units(1 << 20) for block in source.read(unit, 1 << 18)]
    u, v = (np.concatenate([getattr(b, end) for b in blocks]) for end in ("source", "target"))
    weights = [b.weight for b in blocks if b.weight is not None]
    weight = np.concatenate(weights) if weights else np.ones(len(u), np.int64)
    return shard_of(u, v, weight, directed=source.directed)


def at_random(vertices: int, edges: int) -> Shard:
    random = np.random.default_rng(RANDOM_STATE)
    u, v = random.integers(0, vertices, (2, edges))
    return shard_of(u, v, random.integers(1, 1001, edges), directed=False)


def grid(side: int) -> Shard:
    at = np.arange(side * side).reshape(side, side)
    u = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    v = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    weight = np.random.default_rng(RANDOM_STATE).integers(1, 256, len(u))
    return shard_of(u, v, weight, directed=False)


def shard_of(u: AnyArray, v: AnyArray, weight: AnyArray, *, directed: bool) -> Shard:
    graph: Any = og.from_edges(u, v, weight, directed=directed)
    shard: Shard = graph.load("light")
    return shard


def cases(data: Path) -> Iterator[tuple[str, Shard]]:
    for name, file in ROADS.items():
        if (data / file).exists():
            yield name, road(data / file)
    yield "grid of 700 x 700", grid(700)
    yield "random, degree 16", at_random(200_000, 1_600_000)


def search_by(shard: Shard, constants: dict[str, int | str]) -> CudaSsspSearch:
    out, usual = shard.out_light, cuda_sssp_near.constants
    into = shard.into_light if shard.directed else out
    assert out is not None
    assert into is not None
    cuda_sssp_near.constants = lambda *given: {**usual(*given), **constants}
    cuda_sssp.may_pull = lambda _: False
    cuda_sssp.suits_one_block = lambda *_: False
    try:
        return CudaSsspSearch(out, into, shard.tuples)
    finally:
        cuda_sssp_near.constants = usual


def compare(shard: Shard, searches: int) -> dict[str, Any]:
    roots = np.random.default_rng(RANDOM_STATE).integers(0, len(shard.tuples), searches).tolist()
    ways = {name: search_by(shard, constants) for name, constants in WAYS.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for search in ways.values():
        search.run_on_device(roots[0])
    for turn, root in enumerate(roots):
        answers = set()
        for name in sorted(ways, reverse=turn % 2 == 1):
            tree = ways[name].run(root)
            times[name].append(tree.elapsed_s)
            answers.add((tree.distance.tobytes(), tree.parent.tobytes()))
        if len(answers) > 1:
            raise SystemExit(f"the two ways from {root} differ")
    return {
        "rows": len(shard.tuples),
        "median_s": {name: statistics.median(found) for name, found in times.items()},
        "rounds_of_the_last_search": {name: rounds(s) for name, s in ways.items()},
        "times_s": times,
    }


def rounds(search: CudaSsspSearch) -> dict[str, int]:
    assert isinstance(search.method, NearFar)
    return search.method.rounds()


def main() -> None:
    shared = Path(os.environ.get("OOC_GRAPH_SHARED", Path(__file__).parents[2] / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=12)
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    for name, shard in cases(options.data):
        figures = compare(shard, options.searches)
        medians = {way: f"{median * 1e3:.2f} ms" for way, median in figures["median_s"].items()}
        print(f"{name:22s} {medians} {figures['rounds_of_the_last_search']}", flush=True)
        parameters = {"graph": name, "searches": options.searches}
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        record = {
            "benchmark": "gpu_near_far",
            "parameters": parameters,
            "device": {"name": properties["name"].decode(), "cupy": cupy.__version__},
            "source_commit": options.commit,
            "figures": figures,
        }
        append_record(RECORDS, record)


if __name__ == "__main__":
    main()
