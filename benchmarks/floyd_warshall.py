"""Blocked Floyd-Warshall on the CPU beside batches of searches: all pairs of one graph.

    python benchmarks/floyd_warshall.py [--vertices 512 1000 2000 4000] [--densities 1 0.1 0.01]
                                        [--kinds random metric negative]

Directed graphs in memory, with integer weights: ``random``, drawn from 1 to 10^6; ``negative``,
the same, shifted by potentials; ``metric``, distances of random points in a square, of which all
pairs or a share have an arc. Batches, Floyd-Warshall and what the package chooses between them take
turns, each from light-first rows to all distances as integers of 64 bits in memory of its own;
their answers are compared. Potentials and new weights of the negative ones are recorded beside,
and not counted.

Appends to records/floyd_warshall.jsonl.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.types import AnyArray, Rows

RECORDS = Path(__file__).parent / "records" / "floyd_warshall.jsonl"
RANDOM_STATE = 7
HEAVIEST = 10**6
LONG_S = 3.0
"""What takes longer is not done again."""


def rows_of(weight: AnyArray, has_arc: AnyArray) -> Rows:
    """Light-first rows of a matrix of weights."""
    beyond = np.where(has_arc, weight, np.iinfo(np.int64).max)
    order = np.argsort(beyond, axis=1, kind="stable")
    arcs = has_arc.sum(axis=1)
    kept = np.arange(len(weight)) < arcs[:, None]
    sorted_ = np.take_along_axis(weight, order, axis=1)
    ends = np.concatenate([[0], np.cumsum(arcs)]).astype(np.uint64)
    return Rows(ends, order[kept].astype(np.uint32), sorted_[kept])


def graphs(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], tuple[Rows, Rows]]]:
    for vertices in options.vertices:
        for density in options.densities:
            for kind in options.kinds:
                random = np.random.default_rng(RANDOM_STATE)
                weight = random.integers(1, HEAVIEST + 1, (vertices, vertices))
                if kind == "metric":
                    at = random.random((2, vertices))
                    apart = np.hypot(*(at[:, :, None] - at[:, None, :]))
                    weight = (apart * HEAVIEST / 2).astype(np.int64) + 1
                elif kind == "negative":
                    by = random.integers(0, HEAVIEST, vertices)
                    weight += by[:, None] - by
                has_arc = random.random((vertices, vertices)) < density
                np.fill_diagonal(has_arc, False)
                told = {"vertices": vertices, "kind": kind, "density": density}
                yield (
                    told | {"arcs": int(has_arc.sum())},
                    (rows_of(weight, has_arc), rows_of(weight.T, has_arc.T)),
                )


def measure(sides: tuple[Rows, Rows], team: Team, repeats: int) -> dict[str, Any]:
    """All three in turn."""
    vertices = len(sides[0].offsets) - 1
    sources, tuples = np.arange(vertices), np.ones(vertices, np.uint32)
    times: dict[str, list[float]] = {"batches": [], "closed": [], "chosen": []}
    prepared: list[float] = []
    sure, is_closed = floyd_warshall.is_sure, False
    for turn in range(repeats):
        if turn and max(found[0] for found in times.values()) > LONG_S:
            break
        expected = None
        for name, found in times.items():
            begun = perf_counter()
            search = CpuJohnson(*sides, team, tuples=tuples)
            prepared.append(perf_counter() - begun)
            floyd_warshall.is_sure = (lambda *_: True) if name == "closed" else sure
            begun = perf_counter()
            search.expect(vertices, 0 if name == "batches" else vertices)
            answer = search.run(sources)
            found.append(perf_counter() - begun)
            if name != "batches":
                is_closed = search.is_closed
            if name == "closed" and not is_closed:
                raise SystemExit("a path was too long")
            expected = answer if expected is None else expected
            if answer.tobytes() != expected.tobytes():
                raise SystemExit("the answers differ")
    floyd_warshall.is_sure = sure
    least = {name: min(found) for name, found in times.items()}
    return {
        "times_s": times,
        "least_s": least,
        "prepared_s": prepared,
        "faster_by": least["batches"] / least["closed"],
        "minima_per_s": vertices**3 / least["closed"],
        "chosen": "closed" if is_closed else "batches",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vertices", type=int, nargs="*", default=[512, 1000, 2000, 4000])
    parser.add_argument("--densities", type=float, nargs="*", default=[1, 0.1, 0.01])
    parser.add_argument("--kinds", nargs="*", default=["random", "metric", "negative"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    team = Team(options.threads)
    warm = argparse.Namespace(vertices=[300], densities=[0.5], kinds=["random"])
    for _, sides in graphs(warm):
        measure(sides, team, 1)
    for told, sides in graphs(options):
        found = measure(sides, team, options.repeats)
        ms = {name: seconds * 1e3 for name, seconds in found["least_s"].items()}
        print(
            f"n {told['vertices']:5d} {told['kind']:8s} {told['density']:5g}: batches "
            f"{ms['batches']:9.2f} ms, Floyd-Warshall {ms['closed']:8.2f} ms "
            f"({found['faster_by']:5.2f} x), chosen {ms['chosen']:8.2f} ms, {found['chosen']}; "
            f"prepared {min(found['prepared_s']) * 1e3:.0f} ms",
            flush=True,
        )
        append_record(
            options.records,
            {
                "benchmark": "floyd_warshall",
                "parameters": told | {"threads": options.threads},
                "figures": found | {"load_average": os.getloadavg()[0]},
            },
        )


if __name__ == "__main__":
    main()
