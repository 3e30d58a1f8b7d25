"""Negative cycles and self-loops, as many sources are searched."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import NegativeCycleError, UsageError
from tests import small_pairs
from tests.small_pairs import Call, arrays

called = small_pairs.called


@pytest.mark.parametrize(
    ("source", "target", "weight", "directed", "cycle", "total"),
    [
        ([5, 9, 7], [9, 7, 5], [4, -3, -2], True, {5, 9, 7}, -1),
        ([1, 5, 9], [2, 9, 5], [4, -3, 2], True, {5, 9}, -1),
        ([5, 9], [9, 9], [4, -3], True, {9}, -3),
        ([5, 9], [9, 9], [4, -3], False, {9}, -3),
        ([5, 9], [9, 2], [4, -3], False, {9, 2}, -6),
        ([1, 2, 3], [2, 3, 1], [0.1, 0.2, -0.3000000001], True, {1, 2, 3}, None),
    ],
)
def test_negative_cycles_are_shown(
    tmp_path: Path,
    source: Any,
    target: Any,
    weight: Any,
    directed: bool,
    cycle: set[int],
    total: int | None,
) -> None:
    built = og.build(arrays(source, target, weight), tmp_path / "g.zarr", directed=directed)
    for graph in (built, og.from_edges(source, target, weight, directed=directed)):
        with pytest.raises(NegativeCycleError) as caught:
            og.johnson(graph, out=tmp_path / "d.zarr")
        error = caught.value
        assert set(error.cycle) == cycle
        assert error.weight == (math.fsum(weight) if total is None else total)
    assert not list(tmp_path.glob("d.zarr*"))


def test_the_command_says_the_cycle_and_ends_with_3(tmp_path: Path, called: Call) -> None:
    og.build(arrays([5, 9], [9, 2], [4, -3]), tmp_path / "g.zarr", directed=False)
    words = "apsp", tmp_path / "g.zarr", "--out", tmp_path / "d.zarr", "--device", "cpu"
    ended = called(*words)
    assert ended.code == 3
    assert ended.out == ""
    last = ended.err.splitlines()[-1]
    assert "a cycle of 2 arcs has the weight -6" in last
    assert "there and back" in last


def test_cycles_of_weight_zero_are_fine() -> None:
    graph = og.from_edges([0, 1, 2, 2], [1, 2, 0, 3], [0.1, 0.2, -0.3, 1], directed=True)
    found = og.johnson(graph).distance
    # The rounded sum of this cycle is 5.6e-17, on whichever side of zero.
    expected = [[0, 0.1, 0.3, 1.3], [-0.1, 0, 0.2, 1.2], [-0.3, -0.2, 0, 1]]
    np.testing.assert_allclose(found[:3], expected, rtol=0, atol=1e-15)


def test_a_negative_self_loop_stands_in_the_attributes(tmp_path: Path) -> None:
    arcs = arrays([4, 7, 7, 9], [7, 7, 7, 9], [-5, -2, -3, -3])
    built = og.build(arcs, tmp_path / "g.zarr", directed=True)
    held = og.from_edges(*arcs, directed=True)
    for graph in (built, held):
        assert graph.attributes["negative_loop"] == {"vertex": 7, "weight": -3}
    for name, weight in (("h", [-5, 2]), ("i", [5, 2])):
        plain = og.build(arrays([4, 7], [7, 7], weight), tmp_path / f"{name}.zarr", directed=True)
        told = json.loads((plain.path / "zarr.json").read_text())["attributes"]["ooc_graph"]
        # Silence is for graphs where no self-loop could be negative.
        assert told.get("negative_loop", "silent") == (None if weight[0] < 0 else "silent")
        assert og.johnson(plain, targets=[7]).distance.tolist() == [[weight[0]], [0]]


def test_a_store_that_is_silent_on_its_self_loops_is_refused(tmp_path: Path) -> None:
    """As of versions that did not look for negative ones."""
    graph = og.build(arrays([4, 7], [7, 7], [-5, 2]), tmp_path / "g.zarr", directed=True)
    del graph.attributes["negative_loop"]
    with pytest.raises(UsageError, match="build it again"):
        og.johnson(graph)
