"""What the first use on a machine compiles, and what a later start takes.

    python benchmarks/first_use.py [--scale 12] [--repeats 3] [--searched 20]

In a cache folder of its own, empty at first: Graph500's command on a small graph, the same again,
and a fresh process that opens the graph and searches it, in Python and by the command. Seconds of
wall clock, and of processor time of all processes. The same on a graph of scale ``--searched``,
beside ``python -c pass``; first calls on ten vertices, each with an empty cache; and Graph500
within a limit that is too small. Milliseconds of searches that a process repeats, and of the search
alone: on ten vertices, from a source without arcs, and SSSP on the roads of New York if the shared
graphs are there.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

import numpy as np
from harness.graphs import ROAD_NY, data_folder
from harness.program import Program

import ooc_graph as og

FIRST = """
import sys
from time import perf_counter
started = perf_counter()
import ooc_graph as og
graph = og.open(sys.argv[1])
source = int(graph.original_of()[0])
begun = perf_counter()
getattr(og, sys.argv[2])(graph, [source] if sys.argv[2] == "johnson" else source)
ended = perf_counter()
print(ended - begun, ended - started)
"""
REPEATED = """
import statistics, sys
from time import perf_counter
import ooc_graph as og
graph, taken = og.open(sys.argv[1]), []
source = int(graph.internal_of().argmin()) if sys.argv[3] == "isolated" else 1
for _ in range(1 + int(sys.argv[4])):
    begun = perf_counter()
    alone_s = getattr(og, sys.argv[2])(graph, source).elapsed_s
    taken.append((1e3 * (perf_counter() - begun), 1e3 * alone_s))
print(*map(statistics.median, zip(*taken[1:])))
"""
COMMAND = [sys.executable, "-m", "ooc_graph"]
TEN_ARCS = [(i, (i + 1) % 10, 1.0) for i in range(10)]


def timed(call: list[str], environment: dict[str, str], code: int = 0) -> dict[str, float]:
    """Seconds that a program takes, which ends with an exit code, and those that it prints.

    These are of the first call, and from the first import to the answer.
    """
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(call, env=environment, check=False, capture_output=True)
    assert done.returncode == code, done.stderr
    wall_s, after = perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    printed = done.stdout.split() if FIRST in call else ()
    seconds = dict(zip(("call_s", "answer_s"), map(float, printed), strict=False))
    return {"wall_s": wall_s, "cpu_s": cpu_s, **seconds}


def median(
    call: list[str], environment: dict[str, str], repeats: int, empty: Path | None = None
) -> dict[str, float]:
    """Median of several runs, the first of them not counted: it fills the disk cache.

    Each has a cache of its own for kernels, new in the folder ``empty``, if one is given.
    """
    own = [
        {} if empty is None else {"XDG_CACHE_HOME": mkdtemp(dir=empty)} for _ in range(repeats + 1)
    ]
    runs = [timed(call, environment | mine) for mine in own][1:]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def of_code(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def by_command(graph: str, folder: Path) -> list[str]:
    """A search by the command, of a graph in a store."""
    out = ["--out", str(folder / "r.zarr"), "--overwrite", "--quiet"]
    return [*COMMAND, "bfs", graph, "--source", "1", *out]


def repeated(environment: dict[str, str], *words: str) -> dict[str, float]:
    """Medians of repeated searches in one process, in ms."""
    call = of_code(REPEATED, *words)
    done = subprocess.run(call, env=environment, check=True, capture_output=True)
    return dict(zip(("wall_ms", "search_ms"), map(float, done.stdout.split()), strict=True))


def searches(program: Program, environment: dict[str, str], folder: Path) -> None:
    """Record what first and repeated searches take."""
    options = program.options
    searched, tiny = str(folder / "searched.zarr"), str(folder / "tiny.zarr")
    og.build(og.Kronecker(options.searched), searched)
    og.build(tuple(np.array(column) for column in zip(*TEN_ARCS, strict=True)), tiny)
    figures: dict[str, Any] = {"python": median(of_code("pass"), environment, 5)}
    for kernel in ("bfs", "sssp"):
        call = of_code(FIRST, searched, kernel)
        timed(call, environment)
        figures[kernel] = median(call, environment, 5)
    command = by_command(searched, folder)
    figures["bfs_by_command"] = median(command, environment, options.repeats)
    for kernel in ("bfs", "sssp", "johnson"):
        call = of_code(FIRST, tiny, kernel)
        figures[f"{kernel}_empty_cache"] = median(call, environment, options.repeats, folder)
    job = [*COMMAND, "graph500", "--scale", "24", "--memory-limit", "100MiB"]
    figures["graph500_refused"] = timed([*job, "--out", str(folder / "none")], environment, 2)
    figures["ten_vertices"] = repeated(environment, tiny, "bfs", "any", "100")
    figures["isolated"] = repeated(environment, searched, "bfs", "isolated", "100")
    if (data_folder() / ROAD_NY).exists():
        roads = str(folder / "roads.zarr")
        og.build(data_folder() / ROAD_NY, roads)
        figures["roads"] = repeated(environment, roads, "sssp", "any", "30")
    parameters = {"searched": options.searched, "load_before": os.getloadavg()[0]}
    program.record(parameters, figures, benchmark="first_searches")


def main() -> None:
    program = Program("first_use", __doc__, scale=12, repeats=3)
    program.add("--searched", type=int, default=20, help="scale of the graph that is searched")
    options = program.parse()
    with program.scratch() as folder:
        graph = str(folder / "out" / "graph.zarr")
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        # Installed packages have their bytecode.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        timed([*COMMAND, "--version"], environment)
        searches(program, environment, folder)
        environment["XDG_CACHE_HOME"] = str(folder / "empty")
        run = [*COMMAND, "graph500", "--scale", str(options.scale), "--searches", "4"]
        run += ["--out", str(folder / "out"), "--overwrite", "--quiet"]
        search = by_command(graph, folder)
        figures = {
            "graph500_empty_cache": timed(run, environment),
            "graph500_later": median(run, environment, options.repeats),
            "search_in_python_later": median(of_code(FIRST, graph, "bfs"), environment, 5),
            "search_by_command_later": median(search, environment, options.repeats),
            "version": median([*COMMAND, "--version"], environment, 5),
        }
    program.record({"scale": options.scale, "load_before": os.getloadavg()[0]}, figures)


if __name__ == "__main__":
    main()
