"""How searches by ranks scale, and what each thing that they do to send less is worth.

    python benchmarks/scaling.py --strong [--scales 20] [--shapes 2x2,8x64] [--searches 8]
    python benchmarks/scaling.py --weak [--scales 16] ...
    python benchmarks/scaling.py --study [--scales 20] ...
    python benchmarks/scaling.py --many-ranks [--scales 20] ...

A shape is workers by shards, which each joins to one rank. Workers are processes of one thread
each, maybe more than cores: then times say little, and processor time of all threads is compared.

- ``--strong``: one graph by more and more ranks, through shared memory, where nothing is coded, and
  through Dask's connections as between hosts, beside one worker that searches it whole;
- ``--weak``: with twice the ranks, a graph of the next scale;
- ``--study``: through Dask's connections, each thing that ranks do to send less off alone;
- ``--many-ranks``: 64 ranks in 8 workers, and 2 ranks in 2.

Searches of one shape take turns in one run, ``--searches`` at a time and ``--repeats`` times, after
turns that do not count. Answers of the same graph must be the same bytes. Seconds are from when
all ranks have begun to when the last is done, without opening the attempt; processor seconds in all
are those of workers and client from asking to the answer, which the client puts together. Bytes
are those that go to other workers. Raw bitmaps: what they would be if each rank shared a bitmap of
its rows at every level. A level's steps are those of the slowest worker; the rest of its seconds is
coding, exchange and waiting.

All modes print the tables of docs/explanation/benchmarks/scaling.md and draw records/scaling.svg of
the newest records; without a mode they do that alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import log2
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client
from exchange_latency import share_memory
from harness.program import KERNELS, RECORDS, Program, load_average, words
from harness.timing import arcs_of
from ranks import one_thread_each, task_of
from scaling_model import FAR, NEAR, report
from scaling_steps import SWITCHES, Log, alone, checksum, make

import ooc_graph as og
from ooc_graph.exchange.scheduler import run
from ooc_graph.search.single import ALGORITHMS
from ooc_graph.search.steps import of_all_rows

Shape = tuple[int, int]
ALONE = "one worker"
SHAPES = {
    "strong": "2x2,4x4,8x8,8x16,8x32,8x64",
    "weak": "2x2,4x4,8x8,8x16,8x32,8x64",
    "study": "2x2,8x64",
    "many_ranks": "2x2,8x64",
}


def shapes_of(text: str) -> list[Shape]:
    """``2x2,8x64``: workers and ranks."""
    shapes = [shape.partition("x") for shape in words(text)]
    return [(int(workers), int(ranks)) for workers, _, ranks in shapes]


class Searches(NamedTuple):
    """Searches of a graph by a client's workers: by ranks, some things off, or by one of them."""

    client: Client
    graph: og.Graph
    off: tuple[str, ...] = ()
    is_near: bool = True
    by_ranks: bool = True

    def found(self, kernel: str, keys: Sequence[int]) -> list[dict[str, Any]]:
        """Figures of a search from each of some original ids."""
        self.client.run(share_memory, self.is_near)
        if not self.by_ranks:
            roots = [int(root) for root in self.graph.internal_of()[keys]]
            given = str(self.graph.path), kernel, roots
            worker = min(self.client.scheduler_info(n_workers=-1)["workers"])
            future = self.client.submit(alone, *given, workers=[worker], pure=False)
            searched: list[dict[str, Any]] = future.result()
            return searched
        return [self._by_ranks(kernel, key) for key in keys]

    def _by_ranks(self, kernel: str, key: int) -> dict[str, Any]:
        factory = partial(make, task_of(self.graph, kernel, key, 0), self.off)
        results, _ = run(self.client, factory, self.graph.shards, joins=True)
        trees, logs = zip(*results, strict=True)
        arrays = map(ALGORITHMS[kernel]._arrays_of, trees)
        whole = [column.tobytes() for column in of_all_rows(self.graph, len(trees), arrays)]
        of_process = list({id(log): log for log in logs}.values())
        return figures_of(of_process, trees[0]) | {"answer": checksum(whole)}

    def used_s(self) -> float:
        """Processor seconds of all workers and of this process until now."""
        return float(sum(self.client.run(process_time).values()) + process_time())


def figures_of(logs: Sequence[Log], tree: Any) -> dict[str, Any]:
    """Figures of a search from the logs of its processes, and those of its levels if it has some.

    A level goes from one Share to the next: its first entry is what is done before the first, its
    last what is done after the last.
    """
    begun = np.array([log.begun for log in logs])
    spent, shares = np.diff(begun, axis=1), np.cumsum([0, *logs[0].is_share])
    sent = np.array([log.sent[: len(shares) - 1] for log in logs]).sum(axis=0)
    steps = np.array([log.steps_s for log in logs]).max(axis=0)
    figures = {
        "seconds": float(begun[:, -1, 0].max() - begun[:, 0, 0].max()),
        "processor_s": float(spent[..., 1].sum()),
        "arcs": arcs_of(tree),
        "bytes": int(sent.sum()),
        "supersteps": len(shares) - 1,
    }
    # Ranks that search together share less often.
    if shares[-1] != len(getattr(tree, "level_arcs", ())) + 1:
        return figures
    columns = {
        "arcs": np.array([0, *tree.level_arcs, 0]),
        "bytes": np.bincount(shares, np.append(sent, 0)),
        "seconds": np.bincount(shares, spent[..., 0].mean(axis=0)),
        "steps_s": np.bincount(shares, steps),
        "processor_s": np.bincount(shares, spent[..., 1].sum(axis=0)),
    }
    return figures | {"levels": {name: found.tolist() for name, found in columns.items()}}


def medians_of(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of figures of searches, and of their levels, of which some may have more."""
    names = [name for name in found[0] if name not in ("levels", "answer")]
    middle: dict[str, Any] = {n: float(np.median([one[n] for one in found])) for n in names}
    if "levels" not in found[0]:
        return middle
    # The last is what comes after the levels.
    levels = [list(zip(*list(one["levels"].values()), strict=True))[:-1] for one in found]
    names, rows = [*found[0]["levels"], "searches"], []
    for at in range(max(map(len, levels))):
        those = [one[at] for one in levels if at < len(one)]
        row = *np.median(those, axis=0).tolist(), len(those)
        rows.append(dict(zip(names, row, strict=True)))
    return middle | {"levels": rows}


def compared(
    variants: Mapping[str, Searches], kernel: str, keys: Sequence[int], repeats: int
) -> dict[str, Any]:
    """Figures of all variants, and how they compare with the first."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    in_all: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(repeats + 1):
        answers: dict[Path, list[int]] = {}
        for name, variant in variants.items():
            before = variant.used_s()
            searches = variant.found(kernel, keys)
            used_s = (variant.used_s() - before) / len(keys)
            given = [one["answer"] for one in searches]
            if answers.setdefault(variant.graph.path, given) != given:
                raise SystemExit(f"{name}: the answers differ")
            if turn:
                found[name] += searches
                in_all[name].append(used_s)
    figures = {name: medians_of(searches) for name, searches in found.items()}
    of_first = next(iter(found.values()))
    for name, own in figures.items():
        if variants[name].by_ranks:
            own["processor_in_all_s"] = float(np.median(in_all[name]))
            if "levels" in own and own["bytes"]:  # one worker tells nobody
                own["of_raw_bitmaps"] = shares_of_raw(found[name], variants[name])
        for part in ("seconds", "processor_s"):
            # Search by search: sources take twice as long as others, or half as long.
            both = zip(found[name], of_first, strict=True)
            own[f"{part}_ratio"] = float(
                np.median([one[part] / other[part] for one, other in both])
            )
    return figures


def shares_of_raw(found: Sequence[dict[str, Any]], variant: Searches) -> list[float]:
    """Bytes against raw bitmaps at every level: least, median and most."""
    others = len(variant.client.scheduler_info(n_workers=-1)["workers"]) - 1
    raw = [(len(one["levels"]["arcs"]) - 1) * others * variant.graph.rows / 8 for one in found]
    shares = [one["bytes"] / whole for one, whole in zip(found, raw, strict=True)]
    return [float(share) for share in np.quantile(shares, (0, 0.5, 1))]


def graph_of(folder: Path, scale: int, ranks: int) -> og.Graph:
    """Graph500's graph with a shard for each rank, built if it is not there."""
    path = folder / f"scaling-{scale}-{ranks}.zarr"
    return og.open(path) if path.exists() else og.build(og.Kronecker(scale), path, shards=ranks)


def variants_of(mode: str, client: Client, graph: og.Graph) -> dict[str, Searches]:
    """What takes turns in a mode, by one shape."""
    if mode != "study":
        return {
            ALONE: Searches(client, graph, by_ranks=False),
            NEAR: Searches(client, graph),
            FAR: Searches(client, graph, is_near=False),
        }
    without = {f"without {name}": (name,) for name in SWITCHES}
    far = {"all": (), **without, "none": ("codec", "pushing ahead", "owner-reduce")}
    made = {name: Searches(client, graph, off, is_near=False) for name, off in far.items()}
    return made | {NEAR: Searches(client, graph)}


def comparisons(
    mode: str, folder: Path, scale: int, shapes: Sequence[Shape]
) -> Iterator[tuple[dict[str, int], dict[str, Searches]]]:
    """What takes turns, with its parameters: one shape after the other, or all together."""
    if mode == "many_ranks":
        with ExitStack() as stack:
            together = {
                f"{ranks} ranks in {workers}": Searches(
                    stack.enter_context(one_thread_each(workers)), graph_of(folder, scale, ranks)
                )
                for workers, ranks in shapes
            }
            yield {"scale": scale}, together
        return
    for workers, ranks in shapes:
        own = scale + (int(log2(ranks)) if mode == "weak" else 0)
        graph = graph_of(folder, own, ranks)
        with one_thread_each(workers) as client:
            parameters = {"scale": own, "workers": workers, "ranks": ranks}
            yield parameters, variants_of(mode, client, graph)


def main() -> None:
    given = {"searches": 8, "repeats": 3, "kernels": KERNELS, "folder": Path(), "scales": ""}
    program = Program("scaling", __doc__, out=RECORDS / "scaling.svg", **given)
    program.add("--shapes", type=shapes_of, help="workers by ranks: 2x2,8x64")
    for mode in SHAPES:
        program.add(f"--{mode.replace('_', '-')}", action="store_true")
    options = program.parse()
    for mode in [mode for mode in SHAPES if getattr(options, mode)]:
        shapes = options.shapes or shapes_of(SHAPES[mode])
        for scale in options.scales or [16 if mode == "weak" else 20]:
            for shape, variants in comparisons(mode, options.folder, scale, shapes):
                keys = og.Kronecker(shape["scale"]).search_keys(options.searches).tolist()
                for kernel in options.kernels:
                    figures = compared(variants, kernel, keys, options.repeats)
                    parameters = {"mode": mode, **shape, "edge_factor": 16, "kernel": kernel}
                    parameters |= program.given("searches", "repeats") | load_average()
                    program.record(parameters, figures)
    report(options.records, options.out)


if __name__ == "__main__":
    with dask.config.set(og.dask_config()):
        main()
