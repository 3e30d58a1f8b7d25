"""PageRank against LDBC Graphalytics' reference answers, as those of BFS, SSSP and WCC.

The others are in `tests.test_reference_graphs`, which goes through the manifest.
"""

from __future__ import annotations

import gzip
import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges import open_source
from ooc_graph.errors import ValidationFailedError
from tests.shared_data import need_shared

EXAMPLES, TESTS = "ldbc-graphalytics/example/example-", "ldbc-graphalytics/pr/"
ADJACENCY = {"format": "adjacency"}
# Edges, options, answer, iterations as the properties beside them say, and relative tolerance:
# Graphalytics' own is 1e-4, these are what the digits in the
# files allow, and units of 2**-61.
CASES: dict[str, tuple[str, dict[str, Any], str, int, float]] = {
    "example-directed": (
        EXAMPLES + "directed.e",
        {"directed": True},
        EXAMPLES + "directed-PR",
        2,
        1e-14,
    ),
    "example-undirected": (
        EXAMPLES + "undirected.e",
        {"directed": False},
        EXAMPLES + "undirected-PR",
        2,
        1e-14,
    ),
    "test-pr-directed": (
        TESTS + "dir-input",
        ADJACENCY | {"directed": True},
        TESTS + "dir-output",
        14,
        2e-6,
    ),
    "test-pr-undirected": (
        TESTS + "undir-input",
        ADJACENCY | {"directed": False},
        TESTS + "undir-output",
        26,
        1e-7,
    ),
    "libgrape-lite p2p-31": (
        "libgrape-lite/p2p-31.e.gz",
        {"directed": False},
        "libgrape-lite/p2p-31-PR.gz",
        10,
        2e-13,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_graphalytics(case, tmp_path):
    file, options, answer, iterations, tolerance = CASES[case]
    source = open_source(need_shared("data/" + file), **options)
    graph = og.build(source, tmp_path / "g.zarr", shards=2)
    path = need_shared("data/" + answer)
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        wanted = {int(vertex): float(score) for vertex, score in map(str.split, lines)}
    found = og.pagerank(graph, weight=False, iterations=iterations)
    assert found.vertex.tolist() == sorted(wanted)
    scores = np.array([wanted[vertex] for vertex in sorted(wanted)])
    np.testing.assert_allclose(found.pagerank, scores, rtol=tolerance)
    published = replace(found, columns={"vertex": found.vertex, "pagerank": scores})
    has_all_digits = tolerance < 1e-9
    with nullcontext() if has_all_digits else pytest.raises(ValidationFailedError):
        og.validate(graph, published)
    assert og.validate(graph, found)[0].ok


def test_the_other_algorithms_have_reference_answers_too():
    manifest = json.loads(need_shared("data/manifest.json").read_text())["graphs"]
    kinds = {
        one["kind"]
        for graph in manifest
        for one in graph.get("expected", [])
        if graph["file"].startswith("ldbc-graphalytics/")
    }
    assert {"bfs", "sssp", "wcc"} <= kinds
