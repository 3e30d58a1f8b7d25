"""Time of a search with its columns, in the order of the input, beside the search alone.

    python benchmarks/answers.py --store G.zarr --scale 22 [--searches 12]

The store is that of Graph500's generator of the scale, and its search keys are the sources.
`og.bfs` and `og.sssp` are called on the CPU; then parents, and levels or distances, are read. Three
calls that do not count go before. Appends to records/answers.jsonl.
"""

from __future__ import annotations

from pathlib import Path

from harness.program import Program, load_average
from harness.timing import medians, timed

import ooc_graph as og

READ = {"bfs": ("parent", "level"), "sssp": ("parent", "distance")}
NOT_COUNTED = 3


def main() -> None:
    program = Program("answers", __doc__, scale=22, searches=12)
    program.add("--store", type=Path, required=True)
    options = program.parse()
    graph = og.open(options.store)
    keys = og.Kronecker(options.scale).search_keys(options.searches + NOT_COUNTED).tolist()
    for kernel, names in READ.items():
        times: dict[str, list[float]] = {"wall": [], "call": [], "search": []}
        for key in keys:
            called = timed(
                lambda key=key, kernel=kernel: getattr(og, kernel)(graph, key, device="cpu")
            )
            result = called.result
            read = timed(lambda result=result, names=names: [result.read(name) for name in names])
            times["wall"].append(called.elapsed_s + read.elapsed_s)
            times["call"].append(called.elapsed_s)
            times["search"].append(result.elapsed_s)
        counted = {name: each[NOT_COUNTED:] for name, each in times.items()}
        figures = {"median_s": medians(counted), "times_s": counted} | load_average()
        program.record({"scale": options.scale, "kernel": kernel}, figures)


if __name__ == "__main__":
    main()
