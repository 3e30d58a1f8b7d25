"""Names, sizes of files and of signatures are those that CONTRIBUTING.md promises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ooc_graph

ROOT = Path(ooc_graph.__file__).parent
# Words that each stood for several things. No name has them, except in another sense.
RETIRED = """
    way ways place here places told heard held hold hand pairs closing closed shifted unit units
    stretch stretches room course moved named lonely reckoned lightly crew lane lanes loom woven
"""
KEPT = {
    "parts of edges, as the public `EdgeSource` has them; units of measure": """
        Unit unit units _unit _units edges_per_unit units_of stage_unit count_units UNIT_EDGES
        _UNIT_EDGES _UNITS
    """,
    "lanes of a register or of a warp": """
        lane lanes lane_arcs start_lanes advance_lanes LANES LANE_BITS _LANE_ARCS _lane_bits _lanes
        _in_every_lane _redo_lane
    """,
    "connections and loops that are closed": "CLOSED is_closed _LOOP_CLOSED",
    "public names, and pairs of labels": "PairsResult pairs room",
    "names of networkx": """
        all_pairs_bellman_ford_path all_pairs_bellman_ford_path_length all_pairs_dijkstra
        all_pairs_dijkstra_path all_pairs_dijkstra_path_length all_pairs_shortest_path
        all_pairs_shortest_path_length
    """,
    "entries that went to host memory": "_moved moved has_moved make_room",
    "in place": "is_in_place TASK_BATCHES_IN_PLACE",
}
LONG_FILES = {
    # One kernel each, which shares most of its variables.
    "kernels/cuda/bfs/bfs.cu": 280,
    "kernels/cuda/store/disk_sssp.cu": 280,
}
MOST_LINES, MOST_PARAMETERS = 250, 10


def names_in(path: Path) -> Iterator[str]:
    """The module, and what it defines: functions, classes, arguments, variables, attributes."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


def test_no_name_has_a_retired_word() -> None:
    retired, kept = (
        set(RETIRED.split()),
        {name for names in KEPT.values() for name in names.split()},
    )
    assert words_of("_TaskBatchesAtHand") & retired == {"hand"}
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in ROOT.rglob("*.py")
        for name in names_in(path)
        if name not in kept and words_of(name) & retired
    }
    assert sorted(found) == []


def test_files_are_short() -> None:
    paths = [path for kind in ("*.py", "*.cu", "*.cuh") for path in ROOT.rglob(kind)]
    lines = {p.relative_to(ROOT).as_posix(): len(p.read_text().splitlines()) for p in paths}
    long = {n: count for n, count in lines.items() if count > LONG_FILES.get(n, MOST_LINES)}
    assert long == {}
    # An exception that is none any more goes.
    assert [name for name in LONG_FILES if lines.get(name, 0) <= MOST_LINES] == []


def test_signatures_are_short() -> None:
    """Those of users' functions are as long as they have options."""
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] in ("api", "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                count = sum(argument.arg not in ("self", "cls") for argument in given)
                assert count <= MOST_PARAMETERS, f"{path}: {node.name}"
