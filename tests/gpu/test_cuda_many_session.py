"""Many sources at once on a CUDA device, as users ask for them: the bytes of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import UnexpectedError
from ooc_graph.layout import metadata
from ooc_graph.runtime import engine_cache, process
from tests.gpu.searching import column_bytes as columns
from tests.small_pairs import stopped_after

EDGES = 30_000


@pytest.fixture(scope="module", params=["float32", "int64", "negative"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    random = np.random.default_rng(5)
    source = (4_000 * random.random(EDGES) ** 3).astype(np.int64) * 3 + 1
    target = random.integers(0, 4_500, EDGES) * 3 + 1
    weight = random.integers(0, 50, EDGES)
    keep = source != target
    if request.param == "negative":
        weight = weight + (source % 40) - (target % 40)
    edges = (
        source[keep],
        target[keep],
        weight[keep].astype("int64" if request.param == "negative" else request.param),
    )
    folder = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    return og.build(edges, folder, directed=True, device="cpu")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Devices that searches ask for."""
    found: list[str] = []
    plain = process.device
    monkeypatch.setattr(process, "device", lambda name="cpu": found.append(name) or plain(name))
    engine_cache.release()
    yield found
    engine_cache.release()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"parents": True},
        {"targets": 40, "cutoff": 60},
        {"reduce": "eccentricity"},
        {"reduce": "eccentricity", "cutoff": -1},
        {"reduce": "histogram", "bins": 5, "bin_width": 20},
    ],
    ids=str,
)
def test_the_api_gives_the_bytes_of_the_cpu(
    store: og.Graph, options: dict[str, Any], asked: list[str], tmp_path: Path
) -> None:
    originals = store.original_ids()
    given = dict(options)
    if "targets" in given:
        given["targets"] = originals[::9][: given["targets"]]
    sources = originals[::13]
    expected = columns(og.johnson(store, sources, device="cpu", **given))
    assert "cuda" not in asked
    found = og.johnson(store, sources, device="auto", **given)
    assert "cuda" in asked
    assert columns(found) == expected
    kept = og.johnson(store, sources, device="cuda", out=tmp_path / "d.zarr", **given)
    assert columns(kept) == expected


@pytest.mark.parametrize("reduce", ["sum", "closeness"])
def test_sums_are_those_of_the_cpu_but_for_rounding(store: og.Graph, reduce: str) -> None:
    sources = store.original_ids()[::13]
    results = [
        og.johnson(store, sources, reduce=reduce, device=device) for device in ("cpu", "cuda")
    ]
    expected, found = (result.read(reduce) for result in results)
    assert found.dtype == expected.dtype
    if found.dtype.kind == "i":
        assert found.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    reached = [result.read("reached").tolist() for result in results]
    assert reached[0] == reached[1]


@pytest.mark.parametrize("reduce", [None, "eccentricity", "sum"])
def test_a_stopped_run_goes_on_on_the_device(
    store: og.Graph, reduce: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def length(elements: int, itemsize: int) -> int:
        return max(1, min(elements, (1 << 18) // itemsize))

    # A few sources a chunk; arrays of single numbers stay whole.
    monkeypatch.setattr(metadata, "chunk_length", length)
    sources, out = store.original_ids()[::13], tmp_path / "d.zarr"
    with stopped_after(2) as first, pytest.raises(UnexpectedError, match="stopped"):
        og.johnson(store, sources, out=out, reduce=reduce, device="cpu")
    with stopped_after(1000) as again:
        found = og.johnson(store, sources, out=out, reduce=reduce, device="cuda")
    # What has other last bits there is not gone on with.
    is_rounded = reduce == "sum" and found.read("sum").dtype.kind == "f"
    units = again if is_rounded else [*first, *again]
    assert sorted(units) == list(range(max(units) + 1))
    if not is_rounded:
        expected = og.johnson(store, sources, reduce=reduce, device="cpu")
        assert columns(found) == columns(expected)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_graph_without_arcs(device: str) -> None:
    loops = og.from_edges([0, 1], [0, 1], [1.0, 2.0])
    assert og.johnson(loops, device=device).distance.tolist() == [[0, np.inf], [np.inf, 0]]
    reduced = og.johnson(loops, reduce="sum", device=device)
    assert reduced.read("sum").tolist() == [0, 0]
    assert reduced.read("reached").tolist() == [1, 1]
