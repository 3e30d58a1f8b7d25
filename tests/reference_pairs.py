"""Checks of answers for all pairs, negative cycles, and other libraries' test cases."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges import EdgeSource
from ooc_graph.errors import NegativeCycleError
from ooc_graph.types import INT64_UNREACHED


def columns_of(source: EdgeSource) -> tuple[np.ndarray, ...]:
    """All edges of a source; weights of 1 where it has none."""
    blocks = [block for unit in source.units(1 << 20) for block in source.read(unit, 1 << 16)]
    names = ("source", "target", "weight") if source.weighted else ("source", "target")
    columns = [np.concatenate([getattr(block, name) for block in blocks]) for name in names]
    return tuple(columns) if source.weighted else (*columns, np.ones(len(columns[0]), np.int64))


def check_all_pairs(expected: dict[str, Any], store: og.Graph) -> None:
    distance = og.johnson(store).distance
    reached = distance < unreached(distance)
    if "matrix" in expected:
        assert [
            [float(d) if ok else None for d, ok in zip(*pair, strict=True)]
            for pair in zip(distance.tolist(), reached.tolist(), strict=True)
        ] == expected["matrix"]
        return
    assert reached.sum() == expected["reachable_pairs"]
    assert distance[reached].sum() == expected["sum"]
    for name in ("min", "max"):
        if name in expected:
            assert getattr(distance[reached], name)() == expected[name]
    whole = np.full(distance.shape, INT64_UNREACHED, "<i8")
    whole[reached] = distance[reached]
    wanted = expected["sha256_i64le_rowmajor_unreachable_int64max"]
    assert hashlib.sha256(whole.tobytes()).hexdigest() == wanted


def unreached(distance: np.ndarray) -> Any:
    return INT64_UNREACHED if distance.dtype.kind == "i" else np.inf


def check_negative_cycle(source: EdgeSource, store: og.Graph) -> None:
    """The cycle that is shown has the graph's arcs, and their exact sum is what it says."""
    with pytest.raises(NegativeCycleError) as caught:
        og.johnson(store, store.original_ids()[:1])
    cycle, lightest = caught.value.cycle, {}
    arcs = list(zip(*(column.tolist() for column in columns_of(source)), strict=True))
    if not source.directed:
        arcs += [(v, u, w) for u, v, w in arcs]
    for u, v, w in arcs:
        lightest[u, v] = min(w, lightest.get((u, v), math.inf))
    weights = [lightest[pair] for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
    assert caught.value.weight == math.fsum(weights)
    assert math.fsum(weights) < 0


def check_no_negative_cycle(source: EdgeSource) -> None:
    graph = og.from_edges(*columns_of(source), directed=source.directed)
    distance = og.johnson(graph).distance
    assert (np.diagonal(distance) == 0).all()


def check_cases(path: Path) -> int:
    """Cases of another library, those of strong components aside; how many."""
    cases = json.loads(path.read_text())["cases"]
    checked = [case for case in cases if case["expect"]["kind"] != "scc"]
    for case in checked:
        check_case(case)
    return len(checked)


def check_case(case: dict[str, Any]) -> None:
    # A graph without edges cannot be given; a self-loop is the same to shortest paths.
    edges, expect = case["edges"] or [[0, 0, 1]], case["expect"]
    u, v, w = ([edge[place] for edge in edges] for place in range(3))
    graph = og.from_edges(
        np.array(u, np.int64),
        np.array(v, np.int64),
        np.array(w, np.float64),
        directed=case["directed"],
        vertices=case["n"],
    )
    kind = expect["kind"]
    if kind == "negative_cycle":
        with pytest.raises(NegativeCycleError):
            og.johnson(graph)
    elif kind == "no_negative_cycle":
        og.johnson(graph)
    elif kind in ("apsp", "apsp_cutoff"):
        close_to(og.johnson(graph, cutoff=expect.get("cutoff")).distance, expect["matrix"])
    elif kind == "sssp" and not case["name"].startswith("negative cycle in a component"):
        close_to(og.johnson(graph, [expect["source"]]).distance[0], expect["distances"])
    elif kind == "sssp":
        # Whatever reaches it: potentials need all cycles to be none, and so says the error.
        with pytest.raises(NegativeCycleError):
            og.johnson(graph, [expect["source"]])
    elif kind == "multi_source_sssp":
        close_to(og.johnson(graph, expect["sources"]).distance.min(axis=0), expect["distances"])
    elif kind == "wcc":
        labels = expect["labels"]
        pairs = set(zip(og.components(graph).component.tolist(), labels, strict=True))
        assert len(pairs) == expect["components"] == len(set(labels))
    else:
        pytest.fail(f"nothing here checks cases of the kind {kind}")


def close_to(found: np.ndarray, wanted: Any) -> None:
    expected = np.array(wanted, np.float64)
    expected[np.isnan(expected)] = np.inf
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
