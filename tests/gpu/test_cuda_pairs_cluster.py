"""Many sources on a Dask cluster of two workers that share a device: bytes of the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from tests.gpu.searching import columns

EDGES, VERTICES = 30_000, 4_000


@pytest.fixture(scope="module", params=["float32", "int64", "negative"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Ids with gaps, hubs, vertices that nobody reaches; negative weights are differences, too."""
    random = np.random.default_rng(15)
    source = (VERTICES * random.random(EDGES) ** 3).astype(np.int64)
    target = (VERTICES * random.random(EDGES) ** 2).astype(np.int64)
    source, target = source[source != target], target[source != target]
    dtype, weight = request.param, random.integers(1, 60, len(source))
    if dtype == "negative":
        by = random.integers(0, 64, VERTICES)
        # Sums of 64ths are not rounded, so that no cycle becomes negative.
        dtype, weight = "float64", (weight + by[source] - by[target]) / 64
    edges = source * 3 + 1, target * 3 + 1, weight.astype(dtype)
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    return og.build(edges, path, rows="both", directed=True, device="cpu")


def held_bytes(client: Any) -> list[int]:
    """What each worker holds of the device's memory."""

    def mine() -> int:
        from ooc_graph.kernels.cuda.runtime.modules import cuda

        return int(cuda().get_default_memory_pool().used_bytes())

    return list(client.run(mine).values())


def check(find: Any, store: og.Graph, client: Any, out: Path, options: dict[str, Any]) -> None:
    """In memory and stored, from workers with a device, as this process's CPU has it."""
    sources = store.original_ids()[::3]
    right = columns(find(store, sources, device="cpu", **options))
    found = find(store, sources, client=client, device="cuda", **options)
    assert columns(found) == right
    # The rows are still there: it was not the workers' CPU.
    held = held_bytes(client)
    assert len(held) == 2
    assert max(held) > 0
    kept = find(store, sources, client=client, device="cuda", out=out, **options)
    assert columns(kept) == right
    assert columns(og.Result.open(out)) == right


@pytest.mark.parametrize(
    "options",
    [{}, {"parents": True}, {"targets": 40, "cutoff": 60}, {"reduce": "eccentricity"}],
    ids=str,
)
def test_distances(store: og.Graph, workers: Any, options: dict[str, Any], tmp_path: Path) -> None:
    given = dict(options)
    if "targets" in given:
        given["targets"] = store.original_ids()[4 :: VERTICES // given["targets"]]
    check(og.johnson, store, workers, tmp_path / "d.zarr", given)


def test_shortest_paths_from_some(store: og.Graph, workers: Any, tmp_path: Path) -> None:
    check(og.shortest_paths, store, workers, tmp_path / "d.zarr", {})


@pytest.mark.parametrize("options", [{}, {"reduce": "sum"}, {"cutoff": 2}], ids=str)
def test_levels(store: og.Graph, workers: Any, options: dict[str, Any], tmp_path: Path) -> None:
    check(og.multi_source_bfs, store, workers, tmp_path / "l.zarr", options)
