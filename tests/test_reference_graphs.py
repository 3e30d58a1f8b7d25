"""Every reference graph through build, search and validation, against the answers beside it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges import open_source
from ooc_graph.errors import InputError, NegativeWeightError
from tests.reference_pairs import (
    check_all_pairs,
    check_cases,
    check_negative_cycle,
    check_no_negative_cycle,
)
from tests.shared_data import need_shared, shared_dir
from tests.unit.test_readers_shared import OPTIONS, REFUSED

READ_ELSEWHERE = "sizes as read: tests/unit/test_readers_shared.py"
SAID_OTHERWISE = {
    "cugraph netscience.csv": "1,589 counts isolated vertices that the file does not name",
}


def cases() -> Iterator[Any]:
    folder = shared_dir()
    if folder is None:
        yield pytest.param({}, {}, id="no reference data")
        return
    for graph in json.loads((folder / "data/manifest.json").read_text())["graphs"]:
        for number, expected in enumerate(graph.get("expected", [])):
            yield pytest.param(graph, expected, id=f"{graph['name']}-{number}-{expected['kind']}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, Any], og.Graph]:
    """Graphs by file and direction, each built once."""
    return Built(tmp_path_factory.mktemp("graphs"))


class Built(dict):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, key: tuple[str, bool | None]) -> og.Graph:
        file, directed = key
        path = self.folder / f"{len(self)}.zarr"
        self[key] = og.build(source_of(file, directed), path)
        return self[key]


def source_of(file: str, directed: bool | None) -> Any:
    options = {**OPTIONS.get(file, {})}
    if directed is not None:
        options["directed"] = directed
    return open_source(need_shared("data/" + file), **options)


def direction(graph: dict[str, Any], expected: dict[str, Any]) -> bool | None:
    said = expected.get("directed", graph.get("directed"))
    return said if isinstance(said, bool) else None


@pytest.mark.parametrize(("graph", "expected"), list(cases()))
def test_reference(graph: dict[str, Any], expected: dict[str, Any], built: Built) -> None:
    if not graph:
        pytest.skip("reference data not there: set OOC_GRAPH_SHARED")
    kind, file = expected["kind"], graph["file"]
    if kind == "read":
        pytest.skip(READ_ELSEWHERE)
    if "weights" in expected:
        check_shifted(expected, built.folder)
    elif file in REFUSED:
        with pytest.raises(InputError, match=REFUSED[file]):
            built[file, None]
    elif kind in ("bfs", "sssp", "sssp_targets"):
        check_search(graph, expected, built[file, direction(graph, expected)])
    elif kind == "point_to_point":
        for source, target, distance in expected["pairs_s_t_dist"]:
            result = og.sssp(built[file, direction(graph, expected)], source)
            assert result.distance[np.searchsorted(result.vertex, target)] == distance
    elif kind == "wcc":
        check_components(graph, expected, built[file, direction(graph, expected)])
    elif kind == "apsp":
        check_all_pairs(expected, built[file, direction(graph, expected)])
    elif kind == "shortest_shortest_path":
        distance = og.johnson(built[file, direction(graph, expected)]).distance
        assert distance.min() == expected["value"]
    elif kind == "negative_cycle":
        directed = direction(graph, expected)
        check_negative_cycle(source_of(file, directed), built[file, directed])
    elif kind == "no_negative_cycle":
        check_no_negative_cycle(source_of(file, direction(graph, expected)))
    elif kind == "cases":
        assert check_cases(need_shared("data/" + file)) > expected["count"] - 3
    elif kind == "published":
        check_published(graph, expected, built[file, direction(graph, expected)])
    elif kind == "same_graph":
        other = "snap/wiki-Vote.txt.gz"
        check_same(built[file, True], built[other, True], sources=[3, 30, 8297])
    elif kind == "same_matrix":
        for other in [expected["file"]] if "file" in expected else expected["files"]:
            mine, theirs = built[file, None], built[other, None]
            check_same(mine, theirs, sources=mine.original_ids().tolist())
    else:
        pytest.fail(f"nothing here checks answers of the kind {kind}")


def check_search(graph: dict[str, Any], expected: dict[str, Any], store: og.Graph) -> None:
    kernel = "bfs" if expected["kind"] == "bfs" else "sssp"
    # Arrays in the manifest count from 0; Matrix Market's ids from 1.
    base = 1 if "id_base" in expected and graph["file"].endswith(".mtx") else 0
    source = expected["source"] + base
    if kernel == "sssp" and graph.get("negative_weights"):
        with pytest.raises(NegativeWeightError, match="apsp"):
            og.sssp(store, source)
        return
    result = getattr(og, kernel)(store, source)
    edges = source_of(graph["file"], direction(graph, expected))
    verdict = og.validate(result, edges)
    assert verdict.reached == np.count_nonzero(result.reached)
    check_values(expected, result, base)


def values_of(result: og.Result) -> dict[int, Any]:
    """Level or distance of every vertex reached."""
    reached = result.reached
    measure = result.read(result.measure)[reached]
    return dict(zip(result.vertex[reached].tolist(), measure.tolist(), strict=True))


def check_values(expected: dict[str, Any], result: og.Result, base: int) -> None:
    values = values_of(result)
    whole = all(isinstance(value, int) for value in values.values())
    if "reached" in expected:
        assert len(values) == expected["reached"]
        assert sum(values.values()) == pytest.approx(expected["sum"], rel=1e-9)
        if "max" in expected:
            assert max(values.values()) == pytest.approx(expected["max"], rel=1e-9)
    if "level_sizes" in expected:
        assert np.bincount(list(values.values())).tolist() == expected["level_sizes"]
    if "sha256_i64le" in expected and whole:
        column = np.array([values.get(v, -1) for v in result.vertex.tolist()], "<i8")
        assert hashlib.sha256(column.tobytes()).hexdigest() == expected["sha256_i64le"]
    tolerance = {"rel": 1e-9, "abs": expected.get("atol", 0)}
    for vertex, value in listed(expected, base):
        if value is None:
            assert vertex not in values
        else:
            assert values[vertex] == pytest.approx(value, **tolerance)
    for vertex, parents in enumerate(expected.get("valid_parents", [])):
        place = int(np.searchsorted(result.vertex, vertex + base))
        assert int(result.parent[place]) - base in parents or vertex == expected["source"]


def listed(expected: dict[str, Any], base: int) -> Iterator[tuple[int, Any]]:
    """Answers given one by one: in a file, for some targets, or as an array."""
    if "file" in expected:
        yield from answers_in(need_shared("data/" + expected["file"]))
    if "targets" in expected:
        yield from zip(expected["targets"], expected["distances"], strict=True)
        return
    for name in ("levels", "distances"):
        for vertex, value in enumerate(expected.get(name, [])):
            yield vertex + base, value


def answers_in(path: Path) -> Iterator[tuple[int, Any]]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    for line in text.splitlines():
        vertex, value = line.split()
        unreached = value.lower() in ("infinity", "inf", str(np.iinfo(np.int64).max))
        yield int(vertex), None if unreached else float(value)


def check_shifted(expected: dict[str, Any], folder: Path) -> None:
    """Weights of the signed network plus 11, all positive."""
    source = source_of("signed/soc-sign-bitcoinalpha.csv.gz", None)
    blocks = [block for unit in source.units(1 << 20) for block in source.read(unit, 1 << 16)]
    columns = [
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("source", "target", "weight")
    ]
    columns[2] = columns[2] + 11
    graph = og.build(tuple(columns), folder / "shifted.zarr", directed=True)
    result = og.sssp(graph, expected["source"])
    og.validate(result, tuple(columns), directed=True)
    check_values(expected, result, 0)


def check_published(graph: dict[str, Any], expected: dict[str, Any], store: og.Graph) -> None:
    if graph["name"] in SAID_OTHERWISE:
        pytest.skip(SAID_OTHERWISE[graph["name"]])
    if "nodes" in expected:
        assert store.vertices == expected["nodes"]
    if "largest_wcc_nodes" in expected:
        check_largest(graph, expected, store)
    if "edges" in expected:
        assert store.edges == expected["edges"]


def check_components(graph: dict[str, Any], expected: dict[str, Any], store: og.Graph) -> None:
    result = og.components(store)
    verdict = og.validate(result, source_of(graph["file"], direction(graph, expected)))
    names, sizes = np.unique(result.component, return_counts=True)
    assert verdict.components == result.count == len(names)
    if "components" in expected:
        assert len(names) == expected["components"]
    if "largest" in expected:
        largest = sorted(sizes.tolist(), reverse=True)
        assert largest[: len(expected["largest"])] == expected["largest"]
    if "isolated" in expected:
        assert np.count_nonzero(sizes == 1) >= expected["isolated"]
        assert np.count_nonzero(store.internal_of() < 0) == expected["isolated"]
    if "file" in expected:
        check_partition(need_shared("data/" + expected["file"]), result)


def check_partition(path: Path, result: og.ComponentsResult) -> None:
    """LDBC's rule: any names will do, as long as they part the vertices in the same way."""
    theirs = {vertex: int(label) for vertex, label in answers_in(path) if label is not None}
    assert sorted(theirs) == result.vertex.tolist()
    ours = dict(zip(result.vertex.tolist(), result.component.tolist(), strict=True))
    pairs = {(ours[vertex], theirs[vertex]) for vertex in ours}
    assert len(pairs) == len(set(ours.values())) == len(set(theirs.values()))


def check_largest(graph: dict[str, Any], expected: dict[str, Any], store: og.Graph) -> None:
    result = og.components(store)
    names, sizes = np.unique(result.component, return_counts=True)
    assert sizes.max() == expected["largest_wcc_nodes"]
    inside = result.vertex[result.component == names[sizes.argmax()]]
    source = source_of(graph["file"], None)
    blocks = (block for unit in source.units(1 << 20) for block in source.read(unit, 1 << 16))
    edges = sum(int(np.isin(block.source, inside).sum()) for block in blocks)
    assert edges == expected["largest_wcc_edges"]


def check_same(mine: og.Graph, theirs: og.Graph, sources: list[int]) -> None:
    for source in sources:
        first, second = og.bfs(mine, source), og.bfs(theirs, source)
        for name in ("vertex", "level"):
            assert np.array_equal(first.read(name), second.read(name))
