"""BFS and SSSP against networkit, on the same graph, in the same run, alternating.

    python benchmarks/searches.py [--scale 20] [--searches 64] [--peer-searches 8] [--folder DIR]

Ours: the times that the whole command reports (default local cluster, validated), harmonic mean
of TEPS. Peer: networkit's BFS (no paths) and Dijkstra (no paths) on the same deduplicated graph
with the same sources. The ratio is of harmonic means of TEPS over the peer's sources. Appends to
records/searches.jsonl.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import networkit as nk
import numpy as np
from harness.program import Program, load_average
from harness.timing import timed
from scipy.sparse import csr_matrix, triu

import ooc_graph as og
from ooc_graph.report.records import read_records
from ooc_graph.types import AnyArray


def peer_graph(graph: og.Graph, weighted: bool) -> nk.Graph:
    """The stored graph in networkit, by internal id."""
    rows = graph.load("light" if weighted else "hub")
    chosen = rows.out_light if weighted else rows.out_hub
    assert chosen is not None
    weights = chosen.weights if weighted else np.ones(len(chosen.neighbors))
    whole = csr_matrix(
        (
            np.asarray(weights, np.float64),
            chosen.neighbors.astype(np.int64),
            chosen.offsets.astype(np.int64),
        ),
        shape=(graph.rows, graph.rows),
    )
    return nk.GraphFromCoo(triu(whole, 1, "coo"), n=graph.rows, weighted=weighted, directed=False)


def peer_times(kernel: str, peer: nk.Graph, sources: AnyArray) -> list[float]:
    """Seconds of each of the peer's searches."""
    make = nk.distance.BFS if kernel == "bfs" else nk.distance.Dijkstra
    searches = (make(peer, source, storePaths=False) for source in sources.tolist())
    return [timed(search.run).elapsed_s for search in searches]


def ours(scale: int, searches: int, folder: Path) -> dict[str, Any]:
    """Run the whole command; its record."""
    command = ["graph500", "--scale", str(scale), "--searches", str(searches), "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "ooc_graph", *command, "--overwrite", "--out", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return list(read_records(folder / "records.jsonl"))[-1]


def compare(kernel: str, graph: og.Graph, record: dict[str, Any], count: int) -> dict[str, Any]:
    """Time the peer; figures of both."""
    searches = [search for search in record["searches"] if search["kernel"] == kernel]
    chosen = searches[:count]
    peer = peer_graph(graph, kernel == "sssp")
    times = peer_times(kernel, peer, graph.internal_of()[[search["root"] for search in chosen]])
    mine = np.mean([search["time_s"] for search in chosen])
    arcs = sum(level["arcs"] for search in searches for level in search["levels"])
    return {
        "harmonic_mean_teps": len(searches) / sum(s["time_s"] / s["edges"] for s in searches),
        "times_s": [search["time_s"] for search in searches],
        "arcs_share": arcs / len(searches) / graph.arcs,
        "peer": f"networkit {nk.__version__}",
        "peer_times_s": times,
        "ratio_of_mean_times": float(np.mean(times) / mine),
        **load_average(),
    }


def main() -> None:
    program = Program("searches", __doc__, scale=20, searches=64, folder=None)
    program.add("--peer-searches", type=int, default=8)
    options = program.parse()
    with program.scratch() as scratch:
        record = ours(options.scale, options.searches, scratch)
        graph = og.open(scratch / "graph.zarr")
        for kernel in ("bfs", "sssp"):
            parameters = {"scale": options.scale, "edge_factor": 16, "kernel": kernel}
            program.record(parameters, compare(kernel, graph, record, options.peer_searches))


if __name__ == "__main__":
    main()
