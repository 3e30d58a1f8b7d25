"""Ours against networkit, igraph, SciPy, GraphBLAS and networkx on the same graphs, in one run.

    python benchmarks/peers.py [--scales 18-22] [--searches 64] [--data DIR] [--small] [--many yes]

Graph500's graphs of the given scales, and the road and social graphs of the shared data. On each
graph the libraries search from the same sources in turn, ours first; a library whose search takes
--slow-s or longer takes the first --peer-searches sources only. Before anybody is timed, the
answers from one source are compared (from a second one afterwards), and parents are looked up
among the edges. A library that is not installed is left out, and the run says so.

Everybody gives parents and levels or distances in the order of the input, or what comes next to
that (peers_adapters.py). Ours: the public call, and reading both columns, on all cores; the search
alone stands beside it. Others: their own call, on deduplicated edges; reading their answer
is not timed. TEPS count input tuples in the component, and their mean is harmonic; the
ratio is over the sources that the other library searched. Draws records/peers.svg.

With --many, all sources are also searched together (peers_many.py) on some graphs, three times, or
once by a library that takes seconds.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import in_own_process
from harness.graphs import data_folder
from harness.program import RECORDS, Program
from harness.tables import show, title_of
from peers_adapters import PEERS, Peer
from peers_graphs import FILES, SMALL_FILES, Case, from_file, kronecker
from peers_many import many_of
from peers_memory import HAS_PEAK, of_ours, of_peer
from peers_ours import OUR_NAMES, Ours
from peers_picture import draw
from peers_timing import Timed, alternate, figures_of

import ooc_graph as og
from ooc_graph.model.request import EDGES, ROWS

MEMORY_SEARCHES = 2
MANY, MANY_REPEATS, MANY_SLOW_S = ("Kronecker 10", "Kronecker 16", "Kronecker 18", "road NY"), 3, 2


def new_program() -> tuple[Program, argparse.Namespace]:
    program = Program("peers", __doc__, scales=None, searches=None, data=data_folder(), folder=None)
    program.add("--no-data", action="store_true", help="Graph500's graphs alone")
    program.add("--peer-searches", type=int, default=8, help="of a slow library")
    program.add("--slow-s", type=float, default=0.5, help="slow is what takes as long")
    program.add("--edges", action="store_true", help="our method 'edges' as well")
    program.add("--no-memory", action="store_true")
    program.add("--many", choices=("no", "yes", "only"), default="no", help="sources together")
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
    """Records of one graph: of each kernel, from one source and from all together."""
    if options.many == "only" and case.name not in MANY:
        return
    og.build(case.source, scratch / "graph.zarr", overwrite=True)
    methods = (ROWS, EDGES) if options.edges else (ROWS,)
    own = [Ours(scratch / "graph.zarr", method) for method in methods]
    ours = own[0]
    if not np.array_equal(ours.ids, case.ids):
        raise SystemExit(f"{case.name}: the built graph has other vertices than the input")
    kinds = [kind for kind in kinds if len(case.edges.u) <= kind.most_edges]
    no_memory = options.no_memory or options.many == "only" or not HAS_PEAK
    memory = {} if no_memory else memory_of(case, own, kinds, scratch)
    libraries = [*own, *(kind() for kind in kinds)]
    for library in libraries:
        library.build(case.edges)
    together = replace(case, sources=np.tile(case.sources, (MANY_REPEATS, 1)))
    many = many_of([ours, *libraries[len(own) :]])
    for kernel in ours.kernels:
        if options.many != "only":
            few = min(len(case.sources), options.peer_searches)
            yield record_of(kernel, case, libraries, options.slow_s, few, memory)
        if options.many != "no" and case.name in MANY:
            yield record_of(kernel, together, many, MANY_SLOW_S, 1, {})


def record_of(
    kernel: str, case: Case, libraries: Sequence[Any], slow_s: float, few: int, memory: Any
) -> dict[str, Any]:
    """Searches in turn, from a few sources by a library that takes ``slow_s`` for one."""
    for library in libraries:
        if library.name in OUR_NAMES.values():
            # Its first search loads the graph, and is no measure of how slow it is.
            getattr(library, kernel)(case.sources[0].tolist())
    turns, load = [Timed(library) for library in libraries], os.getloadavg()[0]
    every = len(case.sources)
    within = alternate(kernel, case, turns, lambda first_s: few if first_s >= slow_s else every)
    parameters = {"graph": case.name, "kind": case.kind, "kernel": kernel}
    parameters |= {"vertices": case.edges.vertices, "edges": len(case.edges.u)}
    parameters |= {"directed": case.edges.directed, "load_average_before": load}
    if case.sources.ndim > 1:
        parameters["sources"] = case.sources.shape[1]
    figures = {}
    for turn in turns:
        name = turn.adapter.name
        figures[name] = figures_of(turn, turns[0], within, memory.get((name, kernel)))
    return {"parameters": parameters, "figures": figures}


def memory_of(
    case: Case, own: list[Ours], kinds: list[type[Peer]], scratch: Path
) -> dict[tuple[str, str], dict[str, Any]]:
    """Memory of every library and kernel, each library in a process of its own."""
    case.edges.save(scratch)
    sources = case.sources[:MEMORY_SEARCHES].tolist()
    # Ours has rows of its own for each kernel; the others search one graph.
    jobs: list[Any] = [(of_ours, one, one.method, kernel) for one in own for kernel in one.kernels]
    jobs += [(of_peer, kind, kind, own[0].kernels) for kind in kinds]
    found = {}
    for call, library, *given in jobs:
        got, name = in_own_process(call, *given, scratch, sources), library.name
        for kernel, search in got["search_bytes"].items():
            found[name, kernel] = {
                "graph_bytes": got["graph_bytes"],
                "search_bytes": search,
                "search_bytes_a_vertex": search / case.edges.vertices,
            }
    return found


def shown(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures of each library as one row of a table."""
    rows = {f"{n} {row['version']}": row | (row["memory"] or {}) for n, row in figures.items()}
    keys = {key: key.replace("_", " ") for row in rows.values() for key in row}
    for hidden in ("memory", "version", "search_bytes"):
        keys.pop(hidden, None)
    return {n: {text: row.get(k) for k, text in keys.items()} for n, row in rows.items()}


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
                record["parameters"]["run"] = begun
                show(title_of(record["parameters"]), shown(record["figures"]))
                if options.records:
                    program.append(**record)
                records.append(record)
    single = [record for record in records if "sources" not in record["parameters"]]
    if options.picture and single:
        draw(single, options.picture)


if __name__ == "__main__":
    main()
