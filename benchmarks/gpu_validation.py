"""Validation on one CUDA device: Graph500's searches, every answer checked against all edges.

    python benchmarks/gpu_validation.py [--scales 26,28] [--kernels bfs,sssp] [--searches 64]

Searches are those of `benchmarks/gpu.py`. Answers are brought into the order of original ids,
checked one by one, laid out side by side, and checked against the tuples, which are made anew
block by block. A last batch has one wrong parent among right ones, which must be found.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import cupy
import numpy as np
from gpu import WARM_SCALE
from gpu_checks import VALIDATORS
from harness.device import DeviceProgram, build_kronecker, edge_blocks, free_memory, new_search
from harness.program import KERNELS
from harness.timing import measure_of, reached_by

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder
from ooc_graph.validate.cuda_batch import CudaValidator
from ooc_graph.validate.cuda_loader import bytes_per_answer, largest_batch
from ooc_graph.validate.wording import RULE_TREE_EDGE

BLOCK_EDGES, EDGE_BYTES = 1 << 27, 12
SLACK_BYTES = 1 << 30
PARTS = ("search", "scatter", "trees", "generate", "edges", "finish")


class Bench:
    """One graph, its searches, and the seconds that each part takes."""

    def __init__(self, scale: int, kernel: str) -> None:
        self.kernel, self.kronecker = kernel, Kronecker(scale)
        self.graph = build_kronecker(self.kronecker, kernel)
        free_memory()
        self.search = new_search(self.graph, kernel)
        self.order = OriginalOrder(self.graph.internal_of)
        self.seconds: dict[str, float] = defaultdict(float)
        self.columns: Any = None

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        cupy.cuda.Device().synchronize()
        begun = perf_counter()
        yield
        cupy.cuda.Device().synchronize()
        self.seconds[part] += perf_counter() - begun

    def answer(self, key: int) -> tuple[Any, Any, int]:
        """Parents and measures by original id, and the tuples that the answer reaches."""
        with self.timed("search"):
            tree = self.search.run_on_device(int(self.graph.internal_of[key]))
        with self.timed("scatter"):
            self.columns = self.order.columns(tree.parent, measure_of(tree), self.columns)
        parent, found = self.columns
        edges = int(self.graph.tuples[reached_by(tree)].sum(dtype=np.uint64)) // 2
        return parent, found, edges

    def edges_into(self, check: CudaValidator) -> None:
        """Show all tuples, as they are made again."""
        blocks = edge_blocks(self.kronecker, self.kernel == "sssp", BLOCK_EDGES)
        while True:
            with self.timed("generate"):
                block = next(blocks, None)
            if block is None:
                return
            with self.timed("edges"):
                check.block(block.source, block.target, block.weight)

    def room(self) -> int:
        vertices = self.kronecker.vertices
        beside = 2 * bytes_per_answer(vertices, self.kernel) + SLACK_BYTES
        beside += EDGE_BYTES * min(BLOCK_EDGES, self.kronecker.edges)
        return largest_batch(vertices, self.kernel, beside=beside)

    def validate(self, keys: list[int]) -> None:
        """One batch; ends the program if an answer is wrong."""
        check, expected = self.validator(len(keys)), []
        for key in keys:
            parent, measure, edges = self.answer(key)
            expected.append(edges)
            with self.timed("trees"):
                check.add(key, parent, measure)
        self.edges_into(check)
        with self.timed("finish"):
            verdicts = check.finish()
        for verdict in verdicts:
            verdict.raise_if_failed()
        if [verdict.edges for verdict in verdicts] != expected:
            raise SystemExit("tuples by the validator are not those by degrees")

    def control(self, key: int) -> dict[str, Any]:
        """Give the reached vertex of largest id a parent that is none of its neighbours."""
        check = self.validator(2)
        parent, measure, _ = self.answer(key)
        check.add(key, parent, measure)
        child = int(cupy.flatnonzero(parent != 0xFFFFFFFF)[-1])
        near, old = measure[int(parent[child])], int(parent[child])
        fitting = measure <= near if self.kernel == "sssp" else measure == near
        fitting[old] = False
        # The last of them has few neighbours, like most vertices.
        parent[child] = int(cupy.flatnonzero(fitting)[-1])
        check.add(key, parent, measure)
        self.edges_into(check)
        right, wrong = check.finish()
        right.raise_if_failed()
        if wrong.rule != RULE_TREE_EDGE or f"vertex {child} " not in wrong.message:
            raise SystemExit(f"the wrong parent of vertex {child} was not found: {wrong}")
        return {"rule": wrong.rule, "message": wrong.message}

    def validator(self, answers: int) -> CudaValidator:
        return VALIDATORS[self.kernel](self.kronecker.vertices, answers)


def run(scale: int, kernel: str, count: int) -> dict[str, Any]:
    bench = Bench(scale, kernel)
    keys = bench.kronecker.search_keys(count, degree=(bench.graph.internal_of >= 0).get())
    begun, room = perf_counter(), bench.room()
    batches = [[int(key) for key in keys[at : at + room]] for at in range(0, count, room)]
    for batch in batches:
        bench.validate(batch)
        free_memory()
    elapsed_s = perf_counter() - begun
    seconds = {part: bench.seconds[part] for part in PARTS}
    return {
        "edges": bench.kronecker.edges,
        "searches": count,
        "batches": [len(batch) for batch in batches],
        "validation_s": elapsed_s - seconds["search"],
        "parts_s": seconds,
        "control": bench.control(int(keys[0])),
    }


def main() -> None:
    program = DeviceProgram("gpu_validation", __doc__, scales="26,28", kernels=KERNELS, searches=64)
    options = program.parse()
    for kernel in options.kernels:
        # What is compiled when first wanted is compiled before anything is timed.
        small = Bench(WARM_SCALE, kernel)
        small.validate([int(small.graph.original_of[0])])
        del small
    for scale in options.scales:
        for kernel in options.kernels:
            free_memory()
            weights = {"bfs": None, "sssp": "Graph500"}[kernel]
            parameters = {"kernel": kernel, "weights": weights, "scale": scale}
            program.flat_record(parameters, run(scale, kernel, options.searches))


if __name__ == "__main__":
    main()
