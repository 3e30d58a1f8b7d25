"""Near-far on one CUDA device: small rounds done by one block, or all rounds by the whole grid.

    python benchmarks/gpu_near_far.py [--searches 12] [--data DIR]

Both ways hold the same rows and search from the same sources in turn; the answers are compared byte
for byte. Times are by events, until parents and distances stand in device memory. Printed are
medians; the record has every time, and how many rounds were done by one block and by the grid.
Appends to records/gpu_near_far.jsonl.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness.device import DeviceProgram
from harness.graphs import (
    ROAD_BAY,
    ROAD_NY,
    ROAD_ROME,
    data_folder,
    grid_ends,
    light_shard,
    random_roots,
    read_columns,
)
from harness.timing import alternate, medians

import ooc_graph as og
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import Shard

RANDOM_STATE = 5
ROADS = {"road NY": ROAD_NY, "road BAY, no weights": ROAD_BAY, "road Rome": ROAD_ROME}
WAYS: dict[str, dict[str, int | str]] = {
    "one block": {},
    # A front of one entry: the grid does nearly every round, and sorts out whatever waits.
    "grid": {"FRONT": 1, "FRONT_FAR": 1},
}


def cases(data: Path) -> Iterator[tuple[str, Shard]]:
    for name, file in ROADS.items():
        if (data / file).exists():
            source = og.open_source(data / file)
            u, v, weight = read_columns(source)
            weight = np.ones(len(u), np.int64) if weight is None else weight
            yield name, light_shard(u, v, weight, directed=source.directed)
    u, v, _ = grid_ends(700)
    weight = np.random.default_rng(RANDOM_STATE).integers(1, 256, len(u))
    yield "grid of 700 x 700", light_shard(u, v, weight)
    random = np.random.default_rng(RANDOM_STATE)
    u, v = random.integers(0, 200_000, (2, 1_600_000))
    yield "random, degree 16", light_shard(u, v, random.integers(1, 1001, len(u)))


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
    ways = {name: search_by(shard, constants) for name, constants in WAYS.items()}
    times = alternate(ways, random_roots(len(shard.tuples), searches, RANDOM_STATE))
    return {
        "rows": len(shard.tuples),
        "median_s": medians(times),
        "rounds_of_the_last_search": {name: rounds(s) for name, s in ways.items()},
        "times_s": times,
    }


def rounds(search: CudaSsspSearch) -> dict[str, int]:
    assert isinstance(search.method, NearFar)
    return search.method.rounds()


def main() -> None:
    program = DeviceProgram("gpu_near_far", __doc__, searches=12, data=data_folder())
    options = program.parse()
    for name, shard in cases(options.data):
        parameters = {"graph": name, "searches": options.searches}
        program.record(parameters, compare(shard, options.searches))


if __name__ == "__main__":
    main()
