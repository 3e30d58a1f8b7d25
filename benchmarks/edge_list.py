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

Draws records/edge_list.svg and prints the table of docs/edge_list.md, of the newest record of each
scale; with ``--scales ''`` that alone.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from ooc_graph.kernels.cpu.edge_list.grouping import ArcBlock, grouped
from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesBfs
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, Dealing

LIST = "edge list"
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


def measure(scale: int, count: int, threads: int) -> dict[str, Any]:
    """Figures of every search of a scale's graph."""
    source = og.Kronecker(scale)
    graph: Any = og.from_edges(*source.block(0, source.edges)[:2], vertices=source.vertices)
    made, tuples = searches(graph, source, threads), graph.tuples()
    edges: list[int] = []

    def seen(name: str, tree: Any, _: float) -> None:
        if name == LIST:
            edges.append(int(tuples[reached_by(tree)].sum(dtype=np.int64)) // 2)

    bound = {name: search for name, (search, _) in made.items()}
    times = alternate(bound, internal_keys(graph, source, count), seen)
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


def records_of(path: Path) -> list[dict[str, Any]]:
    """The newest record of each scale."""
    return newest(path, lambda r: r["parameters"]["scale"], lambda _: True)


def table(records: Sequence[dict[str, Any]]) -> str:
    """MTEPS by scale, and how many times as fast the edge list is."""

    def cell(row: dict[str, Any]) -> str:
        return f"{row['harmonic_mean_teps'] / 1e6:,.0f} ({row['edge_list_is_faster_by']:.3g})"

    rows = [(r["parameters"]["scale"], *map(cell, r["figures"].values())) for r in records]
    return markdown(("scale", *COLOURS), rows)


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    scales = [record["parameters"]["scale"] for record in records]
    with picture("edge_list", path, (7.2, 3.6)) as figure:
        axis = figure.subplots()
        for name, colour in COLOURS.items():
            rates = [r["figures"][name]["harmonic_mean_teps"] / 1e6 for r in records]
            dashed = "--" if name.startswith("rows") else "-"
            axis.plot(scales, rates, dashed, color=colour, marker="o", markersize=4, label=name)
        axis.set_yscale("log")
        plain_numbers(axis.yaxis)
        axis.set_xticks(scales)
        threads = records[-1]["parameters"]["threads"]
        title = f"BFS of Graph500's graphs on {threads} threads, harmonic mean"
        titled(axis, title, "scale (edge factor 16)", "MTEPS (input tuples)", grid="both")
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def main() -> None:
    given = {
        "scales": "14-20",
        "searches": 32,
        "threads": cores(),
        "out": RECORDS / "edge_list.svg",
    }
    program = Program("edge_list", __doc__, **given)
    options = program.parse()
    for scale in options.scales:
        figures = measure(scale, options.searches, options.threads)
        parameters = {"scale": scale, "edge_factor": 16, **program.given("searches", "threads")}
        program.record(parameters | load_average(), figures)
    records = records_of(options.records)
    draw(records, options.out)
    print(table(records), end="")


if __name__ == "__main__":
    main()
