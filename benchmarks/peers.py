"""Ours against networkit, igraph, SciPy, GraphBLAS and networkx on the same graphs, in one run.

    python benchmarks/peers.py [--scales 18-22] [--searches 64] [--data DIR] [--small]

Graph500's graphs of the given scales, and the road and social graphs of the shared data. On each
graph the libraries search from the same sources in turn, ours first; a library whose search takes
--slow-s or longer takes the first --peer-searches sources only. Before anybody is timed, the
answers from one source are compared (from a second one afterwards), and parents are looked up
among the edges. A library that is not installed is left out, and the run says so.

Everybody gives parents and levels or distances in the order of the input, or what comes next to
that (peers_adapters.py). Ours: the public call, and reading both columns, on all cores; the search
alone stands beside it. Others: their own call, on deduplicated edges; what their answer costs to
read is not counted. TEPS count input tuples in the component, and their mean is harmonic; the
ratio is of harmonic means over the sources that the other library searched. Memory is that of a
process of its own (peers_memory.py). Appends to records/peers.jsonl; draws records/peers.svg.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import in_own_process
from harness.graphs import data_folder
from harness.program import RECORDS, Program
from harness.tables import console
from peers_adapters import PEERS, Peer
from peers_graphs import FILES, SMALL_FILES, Case, from_file, kronecker
from peers_memory import HAS_PEAK
from peers_ours import OUR_NAMES, Ours
from peers_picture import draw
from peers_timing import Timed, alternate, figures_of
from rich.table import Table

import ooc_graph as og
from ooc_graph.model.kernel import EDGES, ROWS

MEMORY, MEMORY_SEARCHES = Path(__file__).with_name("peers_memory.py"), 2
MEBI = 1 << 20


def new_program() -> tuple[Program, argparse.Namespace]:
    program = Program(
        "peers", __doc__, scales=None, searches=None, data=data_folder(), folder=None
    )  # fmt: skip
    program.add("--no-data", action="store_true", help="Graph500's graphs alone")
    program.add("--peer-searches", type=int, default=8, help="of a slow library")
    program.add("--slow-s", type=float, default=0.5, help="slow is what takes as long")
    program.add("--edges", action="store_true", help="our method 'edges' as well")
    program.add("--no-memory", action="store_true")
    program.add("--small", action="store_true", help="scale 10 and tiny graphs, no record")
    program.add("--picture", type=Path, default=None)
    program.parser.set_defaults(records=None)
    options = program.parse()
    if options.scales is None:
        options.scales = [10] if options.small else list(range(18, 23))
    options.searches = options.searches or (4 if options.small else 64)
    if not options.small:
        options.records = options.records or RECORDS / "peers.jsonl"
        options.picture = options.picture or RECORDS / "peers.svg"
    return program, options


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """The graphs, each made when its turn comes."""
    for scale in options.scales:
        yield kronecker(scale, options.searches)
    if options.no_data:
        return
    for named in SMALL_FILES if options.small else FILES:
        if (options.data / named.file).exists():
            yield from_file(named, options.data, options.searches)
        else:
            print(f"{named.name}: left out, {named.file} is not in the data folder")


def compare_on(
    case: Case, kinds: list[type[Peer]], options: argparse.Namespace, scratch: Path
) -> Iterator[dict[str, Any]]:
    """Records of one graph, one for each kernel."""
    og.build(case.source, scratch / "graph.zarr", overwrite=True)
    methods = (ROWS, EDGES) if options.edges else (ROWS,)
    own = [Ours(scratch / "graph.zarr", method) for method in methods]
    ours = own[0]
    if not np.array_equal(ours.vertices(), case.ids):
        raise SystemExit(f"{case.name}: the built graph has other vertices than the input")
    kinds = [kind for kind in kinds if len(case.edges.u) <= kind.most_edges]
    memory = {} if options.no_memory or not HAS_PEAK else memory_of(case, own, kinds, scratch)
    peers = [kind() for kind in kinds]
    for library in (*own, *peers):
        library.build(case.edges)
    for kernel in ours.kernels:
        for method in own:
            # Its first search loads the graph, and is no measure of how slow it is.
            getattr(method, kernel)(int(case.sources[0]))
        turns = [Timed(library) for library in (*own, *peers)]
        load = os.getloadavg()[0]
        within = alternate(kernel, case, turns, lambda s: few_if_slow(s, options))
        parameters = {
            "graph": case.name,
            "kind": case.kind,
            "kernel": kernel,
            "vertices": case.edges.vertices,
            "edges": len(case.edges.u),
            "directed": case.edges.directed,
            "load_average_before": load,
        }
        figures = {}
        for turn in turns:
            name = turn.adapter.name
            held = memory.get((name, kernel))
            figures[name] = figures_of(turn, turns[0], within, held)
        yield {"parameters": parameters, "figures": figures}


def few_if_slow(first_s: float, options: argparse.Namespace) -> int:
    """Searches of a library whose first one took so long."""
    slow = first_s >= options.slow_s
    return int(min(options.searches, options.peer_searches) if slow else options.searches)


def memory_of(
    case: Case, own: list[Ours], kinds: list[type[Peer]], scratch: Path
) -> dict[tuple[str, str], dict[str, Any]]:
    """Memory of every library and kernel, each library in a process of its own."""
    case.edges.save(scratch)
    sources = case.sources[:MEMORY_SEARCHES].tolist()
    # Ours has rows of its own for each kernel; the others search one graph.
    kernels_here = own[0].kernels
    jobs = [(ours.name, [kernel]) for ours in own for kernel in kernels_here]
    shared = [(kind.name, list(kernels_here)) for kind in kinds]
    found = {}
    for name, kernels in jobs + shared:
        searched = ",".join(map(str, sources))
        got = in_own_process(MEMORY, name, ",".join(kernels), scratch, searched)
        for kernel in kernels:
            search = got["search_bytes"][kernel]
            found[name, kernel] = {
                "graph_bytes": got["graph_bytes"],
                "search_bytes": search,
                "search_bytes_a_vertex": search / case.edges.vertices,
            }
    return found


def table_of(record: dict[str, Any]) -> Table:
    """One graph and kernel, a row for each library."""
    parameters = record["parameters"]
    title = (
        f"{parameters['graph']}, {parameters['kernel'].upper()}: {parameters['vertices']:,} "
        f"vertices, {parameters['edges']:,} edges"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("library")
    for heading in (
        "searches", "parents", "median ms", "search alone", "MTEPS", "times ours", "build s",
        "graph MiB", "search B/vertex",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for name, row in record["figures"].items():
        memory = row["memory"] or {}
        table.add_row(
            f"{name} {row['version']}",
            str(row["searches"]),
            "yes" if row["parents"] else "no",
            _shown(row["median_s"], 1e3, 3),
            _shown(row.get("median_search_s"), 1e3, 3),
            _shown(row["harmonic_mean_teps"], 1e-6, 1),
            "" if name == OUR_NAMES[ROWS] else _shown(row["ours_is_faster_by"], 1, 1),
            _shown(row["build_s"], 1, 2),
            _shown(memory.get("graph_bytes"), 1 / MEBI, 1),
            _shown(memory.get("search_bytes_a_vertex"), 1, 1),
        )
    return table


def _shown(value: float | None, factor: float, digits: int) -> str:
    return "-" if value is None else f"{value * factor:,.{digits}f}"


def main() -> None:
    program, options = new_program()
    kinds = [kind for kind in PEERS if kind.installed()]
    for kind in PEERS:
        if kind not in kinds:
            print(f"{kind.name}: left out, {kind.package} is not installed")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    records = []
    for case in cases(options):
        with program.scratch() as scratch:
            for record in compare_on(case, kinds, options, scratch):
                console().print(table_of(record))
                record["parameters"]["run"] = begun
                if options.records:
                    program.append(**record)
                records.append(record)
    if options.picture and records:
        draw(records, options.picture)
        print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
