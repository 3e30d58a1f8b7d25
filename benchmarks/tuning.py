"""Candidate values of a tuned constant beside each other: seconds of the searches that it decides.

    python benchmarks/tuning.py PULL_ABOVE 8 16 32 [--scale 16] [--graph kronecker | grid]
    python benchmarks/tuning.py MODULE:NAME 1 2 --search bfs | sssp | johnson | levels

The constant is one of ``ooc_graph.kernels.common.tuning``, or ``MODULE:NAME`` of another module,
with the search that it decides. Constants are compiled in: each value has a cache of compiled
kernels of its own, and is set before they are imported. The values take turns, each turn a process,
which first does everything once.

``bfs`` and ``sssp`` search from ``--searches`` vertices one after another, ``johnson`` finds the
distances from ``--sources`` vertices together, and ``levels`` counts their levels. The grid has as
many vertices, and integers as weights. Answers must be the same bytes whatever the value.
"""

import hashlib
import importlib
import json
import sys
from typing import Any

import numpy as np
from harness.files import in_own_process
from harness.graphs import RANDOM_STATE, grid_ends, kronecker_in_memory, random_roots, some_rows
from harness.program import Program, load_average
from harness.timing import answer_of, arcs_of, medians, timed

from ooc_graph.threads import cores

TUNING = "ooc_graph.kernels.common.tuning"
DECIDES = {
    "bfs": ("PULL_ABOVE", "PUSH_BELOW", "SHORT_ROW", "LIST_ARCS", "TEAM_ARCS", "FEW_LONGER"),
    "sssp": ("ENOUGH_PUSHED", "HEAD_SHARE", "WEIGHT_SPREAD", "FIRST_STEP"),
    "johnson": ("BATCH_SIZE", "PRUNED_FROM", "FIRST_SPAN"),
    "levels": ("FEW_SOURCES", "FEW_AT_HUBS", "WORTH"),
}
"""What the constants of `TUNING` decide."""
HEAVIEST = 1000


def graph_of(kind: str, scale: int) -> Any:
    """A graph in memory."""
    import ooc_graph as og  # noqa: PLC0415

    if kind == "kronecker":
        return kronecker_in_memory(scale)
    u, v, vertices = grid_ends(1 << scale // 2)
    weight = np.random.default_rng(RANDOM_STATE).integers(1, HEAVIEST + 1, len(u)).astype(np.int32)
    return og.from_edges(u, v, weight, vertices=vertices)


def seconds_of(given: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the searches with the value that has been set, and a hash of their answers."""
    from ooc_graph.kernels.cpu.device import CpuDevice  # noqa: PLC0415
    from ooc_graph.layout.names import ORDER_OF  # noqa: PLC0415

    search, graph = given["search"], graph_of(given["graph"], given["scale"])
    device, answers = CpuDevice(given["threads"]), hashlib.sha256()
    times, arcs = list[float](), list[int]()
    if search in ORDER_OF:
        bound = getattr(device, search)(graph.load(ORDER_OF[search]))
        roots = random_roots(graph.rows, given["searches"], RANDOM_STATE)
        bound.run(roots[0])
        for root in roots:
            tree = bound.run(root)
            times.append(tree.elapsed_s)
            arcs.append(arcs_of(tree))
            for column in answer_of(tree):
                answers.update(column)
    else:
        sources = some_rows(graph.rows, given["sources"])
        if search == "johnson":
            run = device.apsp(graph.load("light", signed=True)).run
        else:
            run = device.multi_source_bfs(graph.load("hub")).tally
        run(sources)
        elapsed_s, _, found = timed(lambda: run(sources))
        times.append(elapsed_s)
        answers.update(found.tobytes())
    device.close()
    return {"times_s": times, "arcs": arcs, "answers": answers.hexdigest()}


def child(module: str, name: str, value: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Figures of searches with a value."""
    before = getattr(importlib.import_module(module), name)
    for loaded in [*sys.modules.values()]:  # and the modules that have taken it from there
        if loaded.__name__.startswith("ooc_graph.") and getattr(loaded, name, None) is before:
            setattr(loaded, name, value)
    return seconds_of(given)


def main() -> None:
    program = Program(
        "tuning", __doc__, scale=16, searches=8, sources=256, repeats=3, threads=cores()
    )
    program.add("constant", help="its name; MODULE:NAME of another module")
    program.add("values", nargs="+", type=json.loads)
    program.add("--search", choices=DECIDES, help="if the constant is another module's")
    program.add("--graph", choices=("kronecker", "grid"), default="kronecker")
    options = program.parse()
    module, _, name = options.constant.rpartition(":")
    known = [search for search, names in DECIDES.items() if not module and name in names]
    if not known and not (module and options.search):
        program.parser.error(f"{options.constant}: give MODULE:NAME and --search")
    given = program.given("graph", "scale", "searches", "sources", "threads")
    given["search"] = options.search or known[0]
    runs: dict[str, list[dict[str, Any]]] = {json.dumps(value): [] for value in options.values}
    with program.scratch() as folder:
        for value in [*runs] * options.repeats:
            own = {"NUMBA_CACHE_DIR": str(folder / value)}
            asked = (module or TUNING, name, json.loads(value), given)
            runs[value].append(in_own_process(child, *asked, environment=own))
    if len({run["answers"] for found in runs.values() for run in found}) > 1:
        raise SystemExit(f"{name}: the answers differ")
    times = {v: [s for run in found for s in run["times_s"]] for v, found in runs.items()}
    figures = {
        "median_s": medians(times),
        "arcs": {value: sum(found[0]["arcs"]) or None for value, found in runs.items()},
        "times_s": times,
    }
    program.record({"constant": options.constant, **given}, figures | load_average())


if __name__ == "__main__":
    main()
