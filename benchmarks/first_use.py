"""What the first use on a machine compiles, and what a later start takes.

    python benchmarks/first_use.py [--scale 12] [--repeats 3]

In a cache folder of its own, empty at first: Graph500's kernels (its command on a small graph, with
all kernels and the validator), the same command again, and a fresh Python process that opens the
graph and searches it, without a cluster and by the command with one. Seconds of wall clock, and of
processor time of all processes. Appends to records/first_use.jsonl.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from time import perf_counter

from harness.program import Program

SEARCH = """
import sys
import ooc_graph as og
graph = og.open(sys.argv[1])
og.bfs(graph, int(graph.original_of()[0]))
"""


def timed(call: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Seconds that a program takes."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(call, env=environment, check=True, capture_output=True)
    wall_s, after = perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall_s, "cpu_s": cpu_s}


def median(call: list[str], environment: dict[str, str], repeats: int) -> dict[str, float]:
    """Median of several runs, the first of them not counted: it fills the disk cache."""
    runs = [timed(call, environment) for _ in range(repeats + 1)][1:]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    program = Program("first_use", __doc__, scale=12, repeats=3)
    options = program.parse()
    command = [sys.executable, "-m", "ooc_graph"]
    with program.scratch() as folder:
        graph = str(folder / "out" / "graph.zarr")
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        # Installed packages have their bytecode.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        timed([*command, "--version"], environment)
        run = [*command, "graph500", "--scale", str(options.scale), "--searches", "4"]
        run += ["--out", str(folder / "out"), "--overwrite", "--quiet"]
        search = [*command, "bfs", graph, "--source", "1", "--overwrite", "--quiet"]
        search += ["--out", str(folder / "r.zarr")]
        in_python = [sys.executable, "-c", SEARCH, graph]
        figures = {
            "graph500_empty_cache": timed(run, environment),
            "graph500_later": median(run, environment, options.repeats),
            "search_in_python_later": median(in_python, environment, 5),
            "search_by_command_later": median(search, environment, options.repeats),
            "version": median([*command, "--version"], environment, 5),
        }
    program.record({"scale": options.scale, "load_before": os.getloadavg()[0]}, figures)


if __name__ == "__main__":
    main()
