"""How much longer a call through a client takes than the search that a worker makes for it.

    python benchmarks/client_overhead.py --store G.zarr [--workers 1 2] [--searches 16]

The store is that of Graph500's generator; it is built if it is not there. The worker has the graph
in memory. `beside_s` is the wall time of the call less that of the search. Three things follow each
call: reading the answer (`read_s`, in which columns are widened), an empty task (`task_s`), and a
task that returns wide columns of the same vertices (`columns_s`), as answers came before. All are
medians; the ratios are those of `beside_s` to the last two.
"""

from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client
from harness.graphs import internal_keys
from harness.program import KERNELS, Program, load_average
from harness.timing import timed

import ooc_graph as og
from ooc_graph.sinks.single import tree_specs


def columns(dtypes: list[np.dtype[Any]], vertices: int) -> list[Any]:
    """Columns as a task gives them."""
    return [np.ones(vertices, dtype) for dtype in dtypes]


def compared(kernel: str, graph: og.Graph, client: Client, roots: list[int]) -> dict[str, Any]:
    """Search from each root; medians of seconds."""
    dtypes = [spec.dtype for spec in tree_specs(graph, kernel).values()]
    tasks = {"task_s": (abs, -1), "columns_s": (columns, dtypes, graph.vertices)}
    seconds: dict[str, list[float]] = {"beside_s": [], "search_s": [], "order_s": [], "read_s": []}
    seconds |= {name: [] for name in tasks}
    for root in [roots[0], roots[0], *roots]:
        whole_s, _, answer = timed(lambda root=root: getattr(og, kernel)(graph, root))
        seconds["search_s"].append(answer.elapsed_s)
        seconds["beside_s"].append(whole_s - answer.elapsed_s)
        seconds["order_s"].append(answer.seconds["order"])
        seconds["read_s"].append(timed(lambda answer=answer: dict(answer.columns))[0])
        for name, task in tasks.items():
            once = timed(lambda task=task: client.submit(*task, pure=False).result())
            seconds[name].append(once[0])
    # The first two load the graph, and find out whether the worker can be reached.
    middle = {name: round(float(np.median(times[2:])), 4) for name, times in seconds.items()}
    ratios = {f"to_{name}": round(middle["beside_s"] / middle[name], 2) for name in tasks}
    return middle | {"least_beside_s": round(min(seconds["beside_s"][2:]), 4)} | ratios


def main() -> None:
    program = Program("client_overhead", __doc__, scale=20, searches=16, kernels=KERNELS)
    program.add("--store", type=Path, required=True)
    program.add("--workers", type=int, nargs="+", default=[1, 2])
    options = program.parse()
    source = og.Kronecker(options.scale)
    if not options.store.exists():
        og.build(source, options.store)
    graph = og.open(options.store)
    keys = internal_keys(graph, source, options.searches)
    roots = graph.original_of()[keys].tolist()
    for workers in options.workers:
        with og.local_cluster(workers) as client:
            for kernel in options.kernels:
                figures = compared(kernel, graph, client, roots)
                parameters = {"scale": options.scale, "workers": workers, "kernel": kernel}
                program.record(parameters, figures | load_average())


if __name__ == "__main__":
    main()
