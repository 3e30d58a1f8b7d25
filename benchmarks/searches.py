"""BFS and SSSP against networkit, on the same graph, in the same run, alternating.

    python benchmarks/searches.py [--scale 20] [--searches 64] [--peer-searches 8] [--folder DIR]

Ours: the times that the whole command reports (default local cluster, validated), harmonic mean
of TEPS. Peer: networkit's BFS (no paths) and Dijkstra (no paths) on the same deduplicated graph
with the same sources. The ratio is of harmonic means of TEPS over the peer's sources. Appends to
records/searches.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import networkit as nk
import numpy as np
from scipy.sparse import csr_matrix, triu

import ooc_graph as og
from ooc_graph.report.records import append_record
from ooc_graph.types import AnyArray

RECORDS = Path(__file__).parent / "records" / "searches.jsonl"


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
    times = []
    for source in sources.tolist():
        make = nk.distance.BFS if kernel == "bfs" else nk.distance.Dijkstra
        search = make(peer, source, storePaths=False)
        begun = perf_counter()
        search.run()
        times.append(perf_counter() - begun)
    return times


def ours(scale: int, searches: int, folder: Path) -> dict[str, Any]:
    """Run the whole command; its record."""
    command = ["graph500", "--scale", str(scale), "--searches", str(searches), "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "ooc_graph", *command, "--overwrite", "--out", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return json.loads((folder / "records.jsonl").read_text().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--searches", type=int, default=64)
    parser.add_argument("--peer-searches", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="search-benchmark-") as scratch:
        record = ours(options.scale, options.searches, Path(scratch))
        graph = og.open(Path(scratch) / "graph.zarr")
        for kernel in ("bfs", "sssp"):
            compare(kernel, graph, record, options)


def compare(
    kernel: str, graph: og.Graph, record: dict[str, Any], options: argparse.Namespace
) -> None:
    """Time the peer and print and record the ratio."""
    searches = [search for search in record["searches"] if search["kernel"] == kernel]
    chosen = searches[: options.peer_searches]
    peer = peer_graph(graph, kernel == "sssp")
    internal = graph.internal_of()
    times = peer_times(kernel, peer, internal[[search["root"] for search in chosen]])
    mine = np.mean([search["time_s"] for search in chosen])
    ratio = float(np.mean(times) / mine)
    own_teps = len(searches) / sum(search["time_s"] / search["edges"] for search in searches)
    arcs = sum(level["arcs"] for search in searches for level in search["levels"])
    share = arcs / len(searches) / graph.arcs
    print(
        f"scale {options.scale} {kernel:4}: ours {own_teps / 1e6:8.0f} MTEPS (harmonic mean of "
        f"{len(searches)}, {np.median([s['time_s'] for s in searches]) * 1e3:.2f} ms median, "
        f"{share:.1%} of the arcs), networkit {np.mean(times) * 1e3:.0f} ms, ratio {ratio:.1f}"
    )
    append_record(
        RECORDS,
        {
            "benchmark": "searches",
            "parameters": {"scale": options.scale, "edge_factor": 16, "kernel": kernel},
            "figures": {
                "harmonic_mean_teps": own_teps,
                "times_s": [search["time_s"] for search in searches],
                "arcs_share": share,
                "peer": f"networkit {nk.__version__}",
                "peer_times_s": times,
                "ratio_of_mean_times": ratio,
                "load_average": os.getloadavg()[0],
            },
        },
    )


if __name__ == "__main__":
    main()
