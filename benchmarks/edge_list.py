"""BFS on the list of edges, each of its optimisations switched off alone, beside BFS on rows.

    python benchmarks/edge_list.py [--scales 14-20] [--searches 32] [--threads N]

Graph500's graphs, of average degree 32, on the CPU. The list has each undirected edge once, sorted
by the segments of vertices that its ends lie in, and levels of one byte (the package's method
``edges``). Beside it stand each edge twice, once from either end; the order in which edges are
generated, with 8 bytes an edge; levels of four bytes; and none of the three. Rows are only pushed
(searched from the top down), with levels of one byte, or as the package does. All have the same
internal ids, without duplicates and self-loops, and take the roots in turn. Times are from the root
to parents and levels of 32 bits, which must be the same bytes. TEPS count input tuples, their mean
is harmonic.

Draws records/edge_list.svg and prints the table of docs/explanation/benchmarks/edge_list.md, of the
newest record of each scale; with ``--scales ''`` that alone.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from edge_list_kernels import Edges, Search, WideGroups, scan, top_down
from harness import pictures
from harness.graphs import internal_keys
from harness.pictures import picture, plain_numbers, titled
from harness.program import RECORDS, Program, load_average, newest
from harness.tables import markdown
from harness.timing import alternate, medians, reached_by

import ooc_graph as og
from ooc_graph.kernels.common.dealt import dealt_of
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.bfs.search import out_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.edge_list.grouped import ArcBlock, grouped
from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesBfs
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, Dealing

LIST = "edge list"
Figures = dict[str, dict[str, Any]]
COLOURS = {
    LIST: pictures.BLUE,
    "each edge twice": pictures.SKY,
    "as generated": pictures.ORANGE,
    "four-byte levels": pictures.GREEN,
    "none of the three": pictures.PURPLE,
    "rows, push only": pictures.VERMILION,
    "rows, push and pull": pictures.INK,
}


def as_generated(u: AnyArray, v: AnyArray, rows: int) -> Edges:
    """Edges of internal ids where each comes first, without self-loops."""
    low, high = np.minimum(u, v), np.maximum(u, v)
    _, first = np.unique(low * rows + high, return_index=True)
    first = np.sort(first[low[first] != high[first]])
    return Edges(low[first].astype(np.uint32), high[first].astype(np.uint32), True)


def twice(edges: Edges) -> Edges:
    """Each edge from both ends, in random order."""
    order = np.random.default_rng(1).permutation(2 * len(edges.tail))
    ends = np.concatenate(edges[:2]), np.concatenate(edges[1::-1])
    return Edges(*(column[order] for column in ends), False)


def searches(graph: Any, source: og.Kronecker, threads: int) -> dict[str, tuple[Any, int]]:
    """Searches by name, and the bytes of what each reads, in the order of `COLOURS`."""
    shard, team, count = graph.load("hub"), Team(threads), graph.rows
    rows = shard.out_hub
    pushed = out_rows(rows)
    arcs = ArcBlock(dealt_of(Dealing(count, 1, 0)), pushed.offsets, 0, rows.neighbors, np.empty(0))
    group = partial(grouped, count, lambda: [arcs], np.empty(0), weighted=False)
    once, both = group(directed=False), group(directed=True)
    u, v, _ = source.block(0, source.edges)
    internal_of = graph.internal_of()
    unsorted = as_generated(internal_of[u].astype(np.int64), internal_of[v], count)
    doubled, ids = twice(unsorted), rows.neighbors.dtype
    row_bytes = rows.offsets.nbytes + rows.neighbors.nbytes
    made = (
        (CpuEdgesBfs(once, ids, team), once.ends.nbytes),
        (CpuEdgesBfs(both, ids, team), both.ends.nbytes),
        (Search(scan, unsorted, count, team), 2 * unsorted.tail.nbytes),
        (WideGroups(once, ids, team), once.ends.nbytes),
        (Search(scan, doubled, count, team, wide=True), 2 * doubled.tail.nbytes),
        (Search(top_down, pushed, count, team), row_bytes),
        (CpuDevice(threads).bfs(shard), row_bytes),
    )
    return dict(zip(COLOURS, made, strict=True))


def compared(made: dict[str, tuple[Any, int]], tuples: Any, roots: list[int]) -> Figures:
    """Times of all searches from each root in turn, whose answers must be the same."""
    edges: list[int] = []

    def seen(name: str, tree: Any, _: float) -> None:
        if name == LIST:
            edges.append(int(tuples[reached_by(tree)].sum(dtype=np.int64)) // 2)

    times = alternate({name: search for name, (search, _) in made.items()}, roots, seen)
    rates = {name: teps_statistics(times[name], edges).harmonic_mean for name in times}
    return {
        name: {
            "median_s": median,
            "harmonic_mean_teps": rates[name],
            "edge_list_is_faster_by": rates[LIST] / rates[name],
            "graph_bytes": made[name][1],
            "times_s": times[name],
        }
        for name, median in medians(times).items()
    }


def measure(options: Namespace, scale: int) -> Figures:
    """Figures of every search of a scale's graph."""
    source = og.Kronecker(scale)
    graph: Any = og.from_edges(*source.block(0, source.edges)[:2], vertices=source.vertices)
    roots = internal_keys(graph, source, options.searches)
    return compared(searches(graph, source, options.threads), graph.tuples(), roots)


def records_of(path: Path) -> list[dict[str, Any]]:
    """The newest record of each scale."""
    return newest(path, lambda r: r["parameters"]["scale"], lambda _: True)


def unit_of(records: Sequence[dict[str, Any]]) -> tuple[str, float, int]:
    """Of rates: its name, TEPS, and digits behind the point."""
    return ("GTEPS", 1e9, 1) if "device" in records[0] else ("MTEPS", 1e6, 0)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Rates by scale, and how many times as fast the edge list is."""
    _, unit, digits = unit_of(records)

    def cell(row: dict[str, Any]) -> str:
        rate = f"{row['harmonic_mean_teps'] / unit:,.{digits}f}"
        return f"{rate} ({row['edge_list_is_faster_by']:.3g})"

    rows = [(r["parameters"]["scale"], *map(cell, r["figures"].values())) for r in records]
    return markdown(("scale", *records[0]["figures"]), rows)


def draw(records: Sequence[dict[str, Any]], colours: dict[str, str], path: Path) -> None:
    name, unit, _ = unit_of(records)
    scales, last = [record["parameters"]["scale"] for record in records], records[-1]
    is_gpu, threads = "device" in last, last["parameters"].get("threads")
    where = last["device"]["name"] if is_gpu else f"{threads} threads"
    with picture("edge_list", path, (7.2, 3.6)) as figure:
        axis = figure.subplots()
        for search, colour in colours.items():
            rates = [r["figures"][search]["harmonic_mean_teps"] / unit for r in records]
            dashed = "--" if search.startswith("rows") else "-"
            axis.plot(scales, rates, dashed, color=colour, marker="o", markersize=4, label=search)
        axis.set_yscale("log")
        plain_numbers(axis.yaxis)
        axis.set_xticks(scales)
        title = f"BFS of Graph500's graphs on {where}, harmonic mean"
        titled(axis, title, "scale (edge factor 16)", f"{name} (input tuples)", grid="both")
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def study(
    program: Program, measure: Callable[[Namespace, int], Figures], colours: dict[str, str]
) -> None:
    """Measure and record each scale, then draw all records and print their table."""
    options = program.parse()
    for scale in options.scales:
        figures = measure(options, scale)
        names = [name for name in ("searches", "threads") if name in options]
        parameters = {"scale": scale, "edge_factor": 16, **program.given(*names)}
        program.record(parameters | load_average(), figures)
    records = records_of(options.records)
    draw(records, colours, options.out)
    print(table(records), end="")


def main() -> None:
    given = {"searches": 32, "threads": cores(), "out": RECORDS / "edge_list.svg"}
    study(Program("edge_list", __doc__, scales="14-20", **given), measure, COLOURS)


if __name__ == "__main__":
    main()
