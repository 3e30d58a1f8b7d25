"""Graph500 as a job: generate and build, search from every key, validate, sum up.

    python pipelines/graph500.py --scale 20 --folder runs/scale20

Run it again after an interruption: what is finished is recognised by its committed store and
skipped. FOLDER gets graph.zarr, KERNEL/KEY.zarr with KERNEL/KEY.json for every search (20 bytes a
vertex each), and summary.json. Exit codes: 0 done, 1 failed, 2 refused, 75 try again, 143 stopped.
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
    parser.add_argument("--folder", type=Path, required=True, help="where everything goes")
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
    if job.finished_result(store, graph, key) and note.exists():
        print(f"{kernel} from {key}: finished already, skipped", flush=True)
        return dict(json.loads(note.read_text()))
    work.once(f"{kernel} warm-up", lambda: getattr(og, kernel)(graph, key, **work.where))
    found = getattr(og, kernel)(graph, key, out=store, overwrite=True, **work.where)
    verdict = og.validate(found, source)
    record = {"root": key, "elapsed_s": found.elapsed_s, "edges": verdict.edges}
    partial = note.with_suffix(".partial")
    partial.write_text(json.dumps({**record, "reached": verdict.reached}))
    partial.replace(note)
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
    store, sums = args.folder / "graph.zarr", {}
    with job.Job(args) as work:
        graph = job.finished_graph(store, source) or work.stage(
            f"build {store}", lambda: og.build(source, store, **work.where)
        )
        row_of = graph.internal_of()
        keys = source.search_keys(args.searches, degree=lambda ids: row_of[ids] >= 0)
        for kernel in dict.fromkeys(args.kernels):
            (args.folder / kernel).mkdir(exist_ok=True)
            stores = [args.folder / kernel / f"{key}.zarr" for key in keys.tolist()]
            records = [search(work, graph, source, kernel, each) for each in stores]
            sums[kernel] = summary(records)
            print(f"{kernel}: {json.dumps(sums[kernel])}", flush=True)
    (args.folder / "summary.json").write_text(json.dumps(sums, indent=1) + "\n")


if __name__ == "__main__":
    job.run(main)
