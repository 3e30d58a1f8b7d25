"""Blocked Floyd-Warshall on the CPU beside batches of searches: all pairs of one graph.

    python benchmarks/floyd_warshall.py [--vertices 512 1000 2000 4000] [--densities 1 0.1 0.01]
                                        [--kinds random metric negative]

Directed graphs in memory, with integer weights: ``random``, drawn from 1 to 10^6; ``negative``,
the same, shifted by potentials; ``metric``, distances of random points in a square, of which all
pairs or a share have an arc. Batches, Floyd-Warshall and what the package chooses between them take
turns, each from light-first rows to all distances as integers of 64 bits in memory of its own;
their answers are compared. Potentials and new weights are recorded beside, and not counted.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from harness.graphs import RANDOM_STATE, Arcs, both_sides
from harness.program import Program, load_average
from harness.timing import least, same_bytes, take_turns, timed

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.threads import cores
from ooc_graph.types import Rows

HEAVIEST = 10**6
LONG_S = 3.0
"""What takes longer is not done again."""


def graphs(
    vertices: list[int], densities: list[float], kinds: list[str]
) -> Iterator[tuple[dict[str, Any], Arcs]]:
    for count, density, kind in product(vertices, densities, kinds):
        random = np.random.default_rng(RANDOM_STATE)
        weight = random.integers(1, HEAVIEST + 1, (count, count))
        if kind == "metric":
            at = random.random((2, count))
            apart = np.hypot(*(at[:, :, None] - at[:, None, :]))
            weight = (apart * HEAVIEST / 2).astype(np.int64) + 1
        elif kind == "negative":
            by = random.integers(0, HEAVIEST, count)
            weight += by[:, None] - by
        has_arc = random.random((count, count)) < density
        np.fill_diagonal(has_arc, False)
        u, v = np.nonzero(has_arc)
        parameters = {"vertices": count, "kind": kind, "density": density, "arcs": len(u)}
        yield parameters, (count, u, v, weight[u, v])


def add_graphs(program: Program, vertices: list[int], kinds: list[str]) -> None:
    """Have a program take options for its graphs."""
    program.add("--vertices", type=int, nargs="*", default=vertices)
    program.add("--densities", type=float, nargs="*", default=[1, 0.1, 0.01])
    program.add("--kinds", nargs="*", default=kinds)


def measure(sides: tuple[Rows, Rows], team: Team, repeats: int) -> dict[str, Any]:
    vertices = len(sides[0].offsets) - 1
    sources, tuples = np.arange(vertices), np.ones(vertices, np.uint32)
    sure, same = floyd_warshall.is_sure, same_bytes()
    prepared_s: list[float] = []
    search: Any = None

    def prepare(name: str) -> None:
        nonlocal search
        elapsed_s, _, search = timed(partial(CpuJohnson, *sides, team, tuples=tuples))
        prepared_s.append(elapsed_s)
        floyd_warshall.is_sure = (lambda *_: True) if name == "closed" else sure

    def run(most_closed: int) -> Any:
        search.expect(vertices, most_closed)
        return search.run(sources)

    def check(name: str, answer: Any) -> None:
        if name == "closed" and not search.has_matrix:
            raise SystemExit("a path was too long")
        same(name, answer)

    most_closed = {"batches": 0, "closed": vertices, "chosen": vertices}
    calls = {name: partial(run, most) for name, most in most_closed.items()}
    turns = take_turns(calls, repeats, before=prepare, check=check, long_s=LONG_S)
    floyd_warshall.is_sure = sure
    best = least(turns.times_s)
    return {
        "times_s": turns.times_s,
        "least_s": best,
        "prepared_s": prepared_s,
        "faster_by": best["batches"] / best["closed"],
        "minima_per_s": vertices**3 / best["closed"],
        "chosen": "closed" if search.has_matrix else "batches",
    }


def main() -> None:
    program = Program("floyd_warshall", __doc__, repeats=3, threads=cores())
    add_graphs(program, [512, 1000, 2000, 4000], ["random", "metric", "negative"])
    options = program.parse()
    team = Team(options.threads)
    for _, arcs in graphs([300], [0.5], ["random"]):
        measure(both_sides(arcs), team, 1)
    for parameters, arcs in graphs(options.vertices, options.densities, options.kinds):
        figures = measure(both_sides(arcs), team, options.repeats)
        program.record(parameters | {"threads": options.threads}, figures | load_average())


if __name__ == "__main__":
    main()
