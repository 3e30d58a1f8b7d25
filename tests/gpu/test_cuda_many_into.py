"""Distances and levels that a CUDA device brings to an array of who asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime.modules import cuda
from tests.gpu import stores
from tests.gpu.test_cuda_many_singly import RESIDENT, without

pytestmark = pytest.mark.usefixtures("released")
LONELY = 77


@pytest.fixture(scope="module", params=["float32", "int64"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Some vertices have no arc: those between others whose loop alone is given."""
    source, target, weight = stores.skewed(request.param)
    loops = 3 * np.arange(5_000, 5_000 + LONELY) + 1
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    ends = np.append(source, loops), np.append(target, loops)
    weights = np.append(weight, np.ones(LONELY, weight.dtype))
    return og.build((*ends, weights), path, rows="both", directed=True, device="cpu")


def ordinary(shape: tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray:
    return np.full(shape, 7, dtype)


def page_locked(shape: tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray:
    import cupyx

    array: np.ndarray = cupyx.empty_pinned(shape, dtype)
    assert cuda().cuda.runtime.pointerGetAttributes(array.ctypes.data).type == 1
    array.fill(7)
    return array


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("aimed", [False, True])
@pytest.mark.parametrize("memory", [ordinary, page_locked])
@pytest.mark.parametrize("find", [og.johnson, og.multi_source_bfs])
def test_the_array_has_the_bytes(
    store: og.Graph, find: Any, memory: Callable[..., np.ndarray], aimed: bool, singly: bool
) -> None:
    ids = store.original_ids()
    assert (store.internal_of() < 0).sum() >= LONELY
    options: dict[str, Any] = {"targets": ids[4::5]} if aimed else {}
    # Those without arcs are the last ones, and among the others.
    sources = ids[-300:] if singly else np.roll(ids, 11)
    wanted = find(store, sources, device="cpu", **options)
    matrix = wanted.read(wanted.measure)
    array = memory(matrix.shape, matrix.dtype)
    with without(*(RESIDENT if singly else ())):
        found = find(store, sources, device="cuda", into=array, **options)
    assert found.read(found.measure) is array
    assert array.tobytes() == matrix.tobytes()


def test_an_array_beside_a_store_is_refused(store: og.Graph, tmp_path: Path) -> None:
    array = np.empty((store.vertices, store.vertices), np.int32)
    with pytest.raises(og.errors.UsageError, match="give one of them"):
        og.multi_source_bfs(store, device="cuda", into=array, out=tmp_path / "l.zarr")
    assert not list(tmp_path.iterdir())
