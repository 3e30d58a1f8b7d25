"""What ranks send each other in a search, in bytes, against raw bitmaps at every level.

    python benchmarks/rank_bytes.py [--scale 22] [--shards 2 8 64] [--searches 16]

All ranks run in this process; counted is what each would send if every rank had a worker of its
own: what it shares, to every other one, and what it routes, to whom it goes. Graphs are those of
Graph500's generator. Shares are those of the arrays as they are; of BFS, those of bitmaps of the
own rows, if ranks shared one at every level: least, median and most of all searches. ``sent`` is
all that travels, ``shared`` all but what is routed, ``plain`` all without codec. Forms and bytes
of each superstep are those of the first search. Speeds are of the arrays as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from harness.graphs import internal_keys
from harness.program import KERNELS, Program
from ranks import task_of

import ooc_graph as og
from ooc_graph.exchange.codec import packed, rehearse, unpacked
from ooc_graph.exchange.coded import Form
from ooc_graph.exchange.disjoint import Disjoint
from ooc_graph.exchange.interface import Question, Route, Share
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.search.ranks import MakeRanks
from ooc_graph.search.single import ALGORITHMS
from ooc_graph.types import AnyArray, owner_of

SPEEDS = "pack", "unpack"
Sent = dict[str, Counter[str]]
"""Bytes by what they are of one superstep: arrays as they are, and as they are sent; forms."""


def messages(question: Question, shard: int, shards: int) -> Iterator[tuple[str, AnyArray, int]]:
    """Arrays that a rank sends, what they are, and to how many ranks."""
    if isinstance(question, Share):
        for array in question.payload:
            yield "shared", array, shards - 1
    route = question if isinstance(question, Route) else question.route
    if route is None:
        return
    owner = owner_of(route.target, shards)
    for receiver in range(shards):
        if receiver != shard:
            for column in (route.target, *route.columns):
                yield "routed", column[owner == receiver], 1


def noted(
    coroutine: Any, steps: list[Sent], seconds: dict[str, float], shard: int, shards: int
) -> Generator[Question, Any, Any]:
    """The coroutine of a rank; what it sends is counted superstep by superstep."""
    answer, disjoint = None, Disjoint()
    for number in range(1 << 30):
        try:
            question = coroutine.send(answer)
        except StopIteration as stop:
            return stop.value
        if number == len(steps):
            steps.append({name: Counter() for name in ("plain", "sent", "forms")})
        for what, array, copies in messages(question, shard, shards):
            is_disjoint = what == "shared" and getattr(question, "is_disjoint", False)
            begun = perf_counter()
            found = packed(disjoint.filled(array) if is_disjoint else array)
            done = perf_counter()
            unpacked(found)
            seconds["unpack"] += perf_counter() - done
            seconds["pack"] += done - begun
            seconds["arrays"] += array.nbytes
            form = Form(int(found.array[0]) & 255).name if found.is_coded else "PLAIN"
            steps[number]["plain"][what] += copies * array.nbytes
            steps[number]["sent"][what] += copies * found.array.nbytes
            steps[number]["forms"][f"{what} {form}"] += 1
        answer = yield question
    raise AssertionError("a search ends")


def searched(graph: og.Graph, kernel: str, root: int) -> tuple[list[Sent], dict[str, float], Any]:
    """What all ranks send in each superstep of a search, and the tree of the first.

    Also the seconds that coding and reading takes, and the bytes of the arrays.
    """
    steps: list[Sent] = []
    seconds: dict[str, float] = defaultdict(float)
    task = task_of(graph, kernel, root, 0)
    with MakeRanks(task, ALGORITHMS[kernel].start)(range(graph.shards)) as (coroutines, shared):
        watched = {s: noted(one, steps, seconds, s, graph.shards) for s, one in coroutines.items()}
        return steps, seconds, run_in_process(watched, shared)[0]


def figures_of(graph: og.Graph, kernel: str, roots: Sequence[int]) -> dict[str, Any]:
    """Shares of all searches, and the supersteps of the first."""
    of_search: list[dict[str, float]] = []
    first: list[Sent] = []
    for root in roots:
        steps, seconds, tree = searched(graph, kernel, root)
        first = first or steps
        plain, sent = (sum(sum(s[name].values()) for s in steps) for name in ("plain", "sent"))
        whole = float(plain)
        if kernel == "bfs":
            # Once more where the frontier is empty.
            whole = (len(tree.level_vertices) + 1) * (graph.shards - 1) * graph.rows / 8
        shared = sum(step["sent"]["shared"] for step in steps)
        of_search.append({"sent": sent / whole, "shared": shared / whole, "plain": plain / whole})
        of_search[-1] |= {"sent_bytes": sent, "whole_bytes": whole}
        speeds = {f"{name}_gb_per_s": seconds["arrays"] / seconds[name] / 1e9 for name in SPEEDS}
        of_search[-1] |= speeds
    quantiles = {
        name: [float(q) for q in np.quantile([one[name] for one in of_search], (0, 0.5, 1))]
        for name in of_search[0]
    }
    figures = {
        name: dict(zip(("least", "median", "most"), three, strict=True))
        for name, three in quantiles.items()
    }
    return figures | {"steps": [{name: dict(s[name]) for name in s} for s in first]}


def main() -> None:
    program = Program(
        "rank_bytes", __doc__, scale=22, searches=16, kernels=[*KERNELS, "components"]
    )
    program.add("--shards", type=int, nargs="+", default=[2, 8, 64])
    options = program.parse()
    source = og.Kronecker(options.scale)
    rehearse()
    with program.scratch() as folder:
        for shards in options.shards:
            graph = og.build(source, folder / f"{shards}.zarr", shards=shards)
            originals = graph.original_of()
            roots = [int(originals[key]) for key in internal_keys(graph, source, options.searches)]
            for kernel in options.kernels:
                parameters = {"scale": options.scale, "shards": shards, "kernel": kernel}
                # Components have no root.
                chosen = roots[:1] if kernel == "components" else roots
                program.record(parameters, figures_of(graph, kernel, chosen))


if __name__ == "__main__":
    main()
