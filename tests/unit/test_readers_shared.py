"""Every reference graph opens with the sizes that the manifest gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ooc_graph.edges import open_source
from ooc_graph.errors import InputError
from tests.shared_data import need_shared, shared_dir

# What the file itself does not say.
OPTIONS: dict[str, dict[str, Any]] = {
    "signed/soc-sign-bitcoinalpha.csv.gz": {"weight": "feature"},
    "ldbc-graphalytics/bfs/dir-input": {"format": "adjacency"},
    "ldbc-graphalytics/bfs/undir-input": {"format": "adjacency", "directed": False},
    "ldbc-graphalytics/wcc/dir-input": {"format": "adjacency"},
    "ldbc-graphalytics/wcc/undir-input": {"format": "adjacency", "directed": False},
    "lagraph/skew_fp64.mtx": {"weight": False},
}
REFUSED = {
    "lagraph/empty.mtx": "rectangular, 3 x 4",
    "lagraph/full.mtx": "layout 'array' is not supported",
    "networkit/jazz2double.graph": "not listed from both ends",
    "networkit/alphabet.edgelist": "a vertex id is not a number",
}
# gapbs counts ids 0 .. 13; the list itself names 13 of them.
VERTICES = {"gapbs/4.wel": 13}
OTHER_FORMATS = {
    "gapbs/4.el": (256, False),
    "gapbs/4.gr": (256, True),
    "gapbs/4.mtx": (256, False),
    "gapbs/4w.mtx": (256, True),
    "gapbs/4w.graph": (53, True),
}


def graphs() -> list[dict[str, Any]]:
    folder = shared_dir()
    if folder is None:
        return []
    listed = json.loads((folder / "data/manifest.json").read_text())["graphs"]
    return [graph for graph in listed if not graph["file"].endswith(".json")]


def sizes(source, per_unit: int, block: int) -> tuple[int, int, int]:
    """Vertices, tuples, and tuples that are no loops."""
    tuples, straight = 0, 0
    ids = [np.zeros(0, dtype=np.int64), *source.vertex_blocks()]
    for unit in source.units(per_unit):
        for edges in source.read(unit, block):
            tuples += len(edges)
            straight += int((edges.source != edges.target).sum())
            ids.append(np.unique(np.concatenate([edges.source, edges.target])))
    source.check_totals(tuples)
    if source.id_range is not None:
        return source.id_range[1], tuples, straight
    return len(np.unique(np.concatenate(ids))), tuples, straight


@pytest.mark.parametrize("graph", graphs(), ids=lambda graph: graph["file"])
def test_sizes(graph: dict[str, Any]) -> None:
    file = graph["file"]
    path = need_shared("data/" + file)
    if file in REFUSED:
        with pytest.raises(InputError, match=REFUSED[file]):
            list((source := open_source(path)).read(source.units(9)[0], 9))
        return
    source = open_source(path, **OPTIONS.get(file, {}))
    vertices, tuples, straight = sizes(source, 10_000, 4_096)
    assert vertices == VERTICES.get(file, graph["vertices"])
    if (listed := graph.get("edges_in_file")) is not None:
        expanded = source.format == "mtx" and not source.directed and listed != tuples
        assert tuples + (straight if expanded else 0) == listed
    if graph.get("weighted") is not None and source.format != "mtx":
        assert source.weighted == graph["weighted"]
    record = source.describe()["files"][0]
    assert (record["sha256"], record["bytes"]) == (graph["sha256"], graph["bytes"])


@pytest.mark.parametrize(("file", "expected"), OTHER_FORMATS.items())
def test_the_same_graph_in_other_formats(file: str, expected: tuple[int, bool]) -> None:
    path = need_shared("data/" + file)
    source = open_source(path, directed=True)
    _, tuples, _ = sizes(source, 20, 7)
    assert (tuples, source.weighted) == expected


def test_gapbs_metis_without_vertex_sizes_is_refused() -> None:
    # Its header says 100 (vertex sizes), its rows have none.
    source = open_source(need_shared("data/gapbs/4.graph"), directed=True)
    with pytest.raises(InputError, match=":3: the line has fewer than the 1 numbers"):
        sizes(source, 20, 7)


def test_the_gapbs_lists_are_one_graph() -> None:
    arcs = []
    for file, shift in (("4.wel", 0), ("4.gr", 1), ("4w.mtx", 1)):
        source = open_source(need_shared("data/gapbs/" + file))
        blocks = [b for unit in source.units(50) for b in source.read(unit, 9)]
        arcs.append(
            sorted(
                (int(u) - shift, int(v) - shift, int(w))
                for block in blocks
                for u, v, w in zip(block.source, block.target, block.weight, strict=True)
            )
        )
    assert arcs[0] == arcs[1]
    assert [arc[:2] for arc in arcs[0]] == [arc[:2] for arc in arcs[2]]
