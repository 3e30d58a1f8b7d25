"""Seconds of validating Graph500's answers on the CPU, beside making the same edges alone.

    python benchmarks/validation.py [--scale 20] [--answers 1,32,64] [--earlier CHECKOUT]

Answers of 64 keys are searched first. Then processes in turn, of this package and with `--earlier`
of another checkout of it, take so many answers in and show them all edges once. For each number of
answers: seconds an answer of taking in, of the pass and of both, the best of the repeats; the ratio
of the pass to the generator's time, and of the earlier package's seconds to these.
"""

import inspect
import subprocess
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

KEYS = 64


NOTHING: Any = SimpleNamespace(fork=lambda: NOTHING, block=id, merge=id, finish=list)
"""A validator that looks at nothing."""


def searched(scale: int, folder: Path) -> None:
    """Leave the answers of some keys in a folder."""
    import ooc_graph as og  # noqa: PLC0415

    source = og.Kronecker(scale)
    graph = og.build(source, folder / "graph.zarr", rows="both", device="cpu")
    for kernel, measure in (("bfs", "level"), ("sssp", "distance")):
        for number, key in enumerate(source.search_keys(KEYS).tolist()):
            result = getattr(og, kernel)(graph, key, device="cpu")
            columns = {"parent": result.parent, measure: result.read(measure)}
            np.savez(folder / f"{kernel}-{number}.npz", root=key, **columns)


def measured(scale: int, folder: Path, counts: list[int]) -> dict[str, list[float]]:
    """Seconds by kernel and number of answers: taking in, pass; in a process of its own."""
    from ooc_graph.edges.kronecker import Kronecker  # noqa: PLC0415
    from ooc_graph.runtime.compile_parts import check_pair  # noqa: PLC0415
    from ooc_graph.runtime.validation import TREES, check_edges  # noqa: PLC0415
    from ooc_graph.threads import cores  # noqa: PLC0415
    from ooc_graph.validate import VertexIndex  # noqa: PLC0415

    source, vertices = Kronecker(scale), VertexIndex.dense(0, 1 << scale)
    found: dict[str, list[float]] = {}
    for kernel, (answer, kind, measure) in TREES.items():
        check_pair(kernel, weighted=True)
        loaded = [np.load(folder / f"{kernel}-{number}.npz") for number in range(KEYS)]
        answers = [answer(int(f["root"]), f["parent"], f[measure], vertices) for f in loaded]
        begun = perf_counter()
        check_edges(NOTHING, source, cores())
        found[f"{kernel}, edges alone"] = [0.0, perf_counter() - begun]
        for count in counts:
            options = {"count": count, "threads": cores()}
            if "count" not in inspect.getsource(kind.__mro__[1].__init__):
                options = {}  # an earlier package
            given = (answers[number % KEYS] for number in range(count))
            begun = perf_counter()
            validator = kind(given, directed=False, **options)
            taken = perf_counter()
            for verdict in check_edges(validator, source, cores()):
                verdict.raise_if_failed()
            found[f"{kernel}, {count} answers"] = [taken - begun, perf_counter() - taken]
    return found


def main() -> None:
    from harness.files import in_own_process  # noqa: PLC0415
    from harness.program import Program, load_average, words  # noqa: PLC0415

    program = Program("validation", __doc__, scale=20, repeats=3, folder=None)
    program.add("--answers", type=words, default=["1", "32", "64"])
    program.add("--earlier", type=Path, default=None, help="checkout to compare with")
    options = program.parse()
    packages = [Path(__file__).resolve().parents[1], *filter(None, [options.earlier])]
    runs: list[list[dict[str, list[float]]]] = [[] for _ in packages]
    with program.scratch() as folder:
        searched(options.scale, folder)
        given = options.scale, folder, [int(count) for count in options.answers]
        for _ in range(options.repeats):
            for package, found in zip(packages, runs, strict=True):
                environment = {"PYTHONPATH": str(package)}
                found.append(in_own_process(measured, *given, environment=environment))
    best = [{case: min((run[case] for run in each), key=sum) for case in each[0]} for each in runs]
    figures: dict[str, dict[str, float]] = {}
    for case, (taking_s, pass_s) in best[0].items():
        kernel, _, what = case.partition(", ")
        count = int(what.split()[0]) if what[0].isdigit() else 1
        each = figures[case] = {"taking in, s": taking_s / count, "pass, s": pass_s / count}
        each["s an answer"] = (taking_s + pass_s) / count
        each["pass / edges alone"] = pass_s / best[0][f"{kernel}, edges alone"][1]
        for earlier in best[1:]:
            each["earlier, s an answer"] = sum(earlier[case]) / count
            each["earlier / this"] = sum(earlier[case]) / (taking_s + pass_s)
    parameters = program.given("scale", "repeats") | load_average()
    if options.earlier:
        command = ["git", "-C", str(options.earlier), "rev-parse", "HEAD"]
        parameters["earlier_commit"] = subprocess.check_output(command, text=True).strip()
    program.record(parameters, figures)


if __name__ == "__main__":
    main()
