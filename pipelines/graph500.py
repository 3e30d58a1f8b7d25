"""Graph500 as a job: generate and build, search from every key, validate, sum up.

    python pipelines/graph500.py --scale 20 --folder runs/scale20

Run it again after an interruption: what is finished is recognised by its committed store and
skipped. FOLDER gets graph.zarr, KERNEL/KEY.zarr with KERNEL/KEY.json for every search (20 bytes a
vertex each), summary.json, and job.json, which says what was asked for. A folder with the graph of
other parameters is refused; --overwrite replaces the graph and the answers. Exit codes: 0 done,
1 failed, 2 refused, 75 try again, 143 stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import job
import numpy as np

import ooc_graph as og


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, required=True, help="log2 of the number of vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="edges a vertex [16]")
    parser.add_argument("--seeds", type=int, nargs=2, default=[2, 3], help="generator seeds [2 3]")
    parser.add_argument("--searches", type=int, default=64, help="search keys a kernel [64]")
    parser.add_argument(
        "--kernels", nargs="+", choices=["bfs", "sssp"], default=["bfs", "sssp"], help="[bfs sssp]"
    )
    job.add_common(parser)
    return parser.parse_args()


def search(
    work: job.Job, graph: og.Graph, source: og.Kronecker, kernel: str, store: Path
) -> dict[str, Any]:
    """Search from the key that the store is named after and validate the answer.

    The note beside the store is written last: only with it, a search is finished. The first
    search of a run is done once untimed, as Graph500 does: it loads the graph and compiles.
    """
    key, note = int(store.stem), store.with_suffix(".json")
    record = job.noted(note, graph)
    if record is not None and job.finished_result(store, graph, key):
        print(f"{kernel} from {key}: finished already, skipped", flush=True)
        return record
    work.once(f"{kernel} warm-up", lambda: getattr(og, kernel)(graph, key, **work.where))
    found = getattr(og, kernel)(graph, key, out=store, overwrite=True, **work.where)
    verdict = og.validate(found, source)
    record = {"root": key, "elapsed_s": found.elapsed_s, "edges": verdict.edges}
    job.write_note(note, graph, **record, reached=verdict.reached)
    return record


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one kernel; the mean of TEPS is harmonic, as Graph500 has it."""
    elapsed_s = np.array([record["elapsed_s"] for record in records])
    teps = np.array([record["edges"] for record in records]) / elapsed_s
    return {
        "searches": len(records),
        "median_elapsed_s": float(np.median(elapsed_s)),
        "harmonic_mean_teps": float(len(teps) / np.sum(1 / teps)),
    }


def main() -> None:
    """Run what is not finished yet."""
    args = arguments()
    source = og.Kronecker(
        args.scale,
        edge_factor=args.edge_factor,
        seeds=tuple(args.seeds),
        weighted="sssp" in args.kernels,
    )
    args.folder.mkdir(parents=True, exist_ok=True)
    sums, sums_file = {}, args.folder / "summary.json"
    with job.Job(args) as work:
        graph = work.graph(source, source.describe())
        if job.noted(sums_file, graph) is None:
            # Of another graph.
            sums_file.unlink(missing_ok=True)
        row_of = graph.internal_of()
        keys = source.search_keys(args.searches, degree=lambda ids: row_of[ids] >= 0)
        for kernel in dict.fromkeys(args.kernels):
            (args.folder / kernel).mkdir(exist_ok=True)
            stores = [args.folder / kernel / f"{key}.zarr" for key in keys.tolist()]
            records = [search(work, graph, source, kernel, each) for each in stores]
            sums[kernel] = summary(records)
            print(f"{kernel}: {json.dumps(sums[kernel])}", flush=True)
    job.write_note(sums_file, graph, **sums)


if __name__ == "__main__":
    job.run(main)
