"""What a search makes of a device's answers; NumPy stands in for CuPy, a tree for the search."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.graph500 import on_device
from ooc_graph.model.task import trace_of
from ooc_graph.sinks import device_columns

NONE = np.uint32(0xFFFFFFFF)
INTERNAL_OF = np.array([2, -1, 0, 3, 1], np.int32)
ORIGINAL_OF = np.array([2, 4, 0, 3])
PARENT = np.array([0, 0, 1, NONE], np.uint32)  # internal ids; the last row is not reached
MEASURES = {
    "uint8": np.array([0, 1, 2, 255], np.uint8),
    "int32": np.array([0, 1, 2, -1], np.int32),
    "float32": np.array([0, 0.5, 1, np.inf], np.float32),
    "int64": np.array([0, 5, 9, np.iinfo(np.int64).max]),
}


def plain_scatter(internal_of: Any, parent: Any, measure: Any, into: Any = None) -> Any:
    unreached = {"uint8": 255, "int32": -1, "float32": np.inf}
    none = unreached.get(measure.dtype.name, np.iinfo(np.int64).max)
    has_row = internal_of >= 0
    columns = np.full(len(internal_of), NONE), np.full(len(internal_of), none, measure.dtype)
    columns[0][has_row], columns[1][has_row] = (
        parent[internal_of[has_row]],
        measure[internal_of[has_row]],
    )
    return columns


@pytest.fixture(autouse=True)
def numpy_for_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (device_columns, on_device):
        monkeypatch.setattr(module, "cuda", lambda: np)
        monkeypatch.setattr(module, "on_device", np.asarray)
        monkeypatch.setattr(module, "within_memory", lambda _: nullcontext())
        monkeypatch.setattr(module, "scatter", plain_scatter)


@pytest.mark.parametrize("original_parents", [False, True])
@pytest.mark.parametrize("dtype", MEASURES)
def test_columns_are_those_of_the_cpu(dtype: str, original_parents: bool) -> None:
    kernel, measure = "bfs" if dtype in ("uint8", "int32") else "sssp", MEASURES[dtype]
    ids = Ids(INTERNAL_OF, ORIGINAL_OF, 0, None)
    parent = PARENT.copy()
    if original_parents:
        parent[parent != NONE] = ORIGINAL_OF[parent[parent != NONE]]
    found = SimpleNamespace(parent=parent, level=measure, distance=measure, elapsed_s=0.25)
    held: Any = SimpleNamespace(
        kernel=kernel,
        original_parents=original_parents,
        ids=ids,
        graph=SimpleNamespace(position_of=lambda root: root),
        search=SimpleNamespace(run_on_device=lambda root: found),
    )
    written = device_columns.search(held, 2)
    levels = np.where(PARENT == NONE, -1, measure.astype(np.int32)) if kernel == "bfs" else measure
    tree = Tree(kernel, 2, 2, PARENT, levels.astype(np.int32) if kernel == "bfs" else levels)
    expected = TreeColumns(tree, ids).in_memory()
    assert written.trace.elapsed_s == 0.25
    assert written.columns is not None
    assert written.columns.keys() == expected.keys()
    for name, column in expected.items():
        assert written.columns[name].dtype == column.dtype, name
        assert written.columns[name].tolist() == column.tolist(), name


class Search:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._counts = False

    def count_arcs(self, on: bool) -> None:
        self._counts = on

    def run_on_device(self, root: int) -> Any:
        self.asked.append((root, self._counts))
        phases = {"push": root, "pull": 2, "finish": 0, "parents": 1}
        return SimpleNamespace(
            parent=PARENT, level=MEASURES["uint8"], elapsed_s=1.0 + root, phase_arcs=phases
        )

    def level_trace(self) -> Any:
        assert self._counts
        kinds = [(name, np.int64) for name in ("found", "pushed", "examined", "ns", "pull")]
        rows = [(1, 0, 0, 0, 0), (2, 7, 0, 0, 0), (0, 0, 9, 0, 1)]
        return np.array(rows, kinds)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_nothing_is_searched_twice_before_it_is_timed(kernel: str) -> None:
    """Levels of a BFS are counted after all timed searches; an SSSP tells of itself."""
    search = Search()
    held: Any = SimpleNamespace(
        kernel=kernel,
        search=search,
        ids=Ids(INTERNAL_OF, ORIGINAL_OF, 0, None),
        tuples=np.array([4, 2, 2, 9], np.uint32),
        graph=SimpleNamespace(first_id=0),
    )
    task: Any = SimpleNamespace(kernel=kernel, validate=False, engine=lambda: nullcontext(held))
    found = on_device.search_batch(task, np.array([2, 4, 0]))
    timed = [(0, False), (1, False), (2, False)]
    counted = [(0, True), (1, True), (2, True)]
    assert search.asked == (timed + counted if kernel == "bfs" else timed)
    assert [one.root for one in found] == [2, 4, 0]
    assert [one.trace.elapsed_s for one in found] == [1.0, 2.0, 3.0]
    assert [(one.edges, one.reached) for one in found] == [(4, 3)] * 3
    if kernel == "bfs":
        assert found[0].trace.levels == ((1, 7, "push"), (2, 9, "pull"))
    else:
        phases = SimpleNamespace(
            phase_arcs={"push": 1, "pull": 2, "finish": 0, "parents": 1}, elapsed_s=2.0
        )
        assert found[1].trace == trace_of("sssp", phases)
