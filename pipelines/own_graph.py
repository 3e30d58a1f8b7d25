"""A graph of your own as a job: build, search from some vertices, export the answers.

    python pipelines/own_graph.py edges.csv --source 17 --source 4 --folder runs/mine

Run it again after an interruption: what is finished is recognised by its committed store and
skipped. Run it again after the files have changed: the graph is built again, and the answers are
found and exported again. FOLDER gets graph.zarr, KERNEL-SOURCE.zarr and KERNEL-SOURCE.csv (or
another --export format) for every answer, beside it KERNEL-SOURCE.csv.json, which names the graph,
and job.json, which says what was asked for. A folder with the graph of other files or options is
refused; --overwrite replaces the graph and the answers. Exit codes: 0 done, 1 failed, 2 refused,
75 try again, 143 stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import job

import ooc_graph as og


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("edges", nargs="+", help="edge files, or one folder of them")
    parser.add_argument("--source", type=int, action="append", required=True, help="begin here")
    parser.add_argument("--kernels", nargs="+", choices=["bfs", "sssp"], help="[by the weights]")
    parser.add_argument("--export", choices=["csv", "tsv", "npz", "parquet"], default="csv")
    parser.add_argument("--format", choices=sorted(og.FORMATS), help="[by name and content]")
    parser.add_argument(
        "--directed",
        action=argparse.BooleanOptionalAction,
        help="override what the file says",
    )
    parser.add_argument("--weight", metavar="COLUMN", help="name, number from 0, or none")
    job.add_common(parser)
    return parser.parse_args()


def opened(args: argparse.Namespace) -> og.EdgeSource:
    """The edges; only headers are read."""
    weight = args.weight
    return og.open_source(
        args.edges if len(args.edges) > 1 else args.edges[0],
        format=args.format,
        directed=args.directed,
        weight=int(weight) if weight is not None and weight.isdecimal() else weight,
    )


def answer(work: job.Job, graph: og.Graph, kernel: str, root: int, file: Path) -> None:
    """Search and export; the file appears whole or not at all."""
    store, note = file.with_suffix(".zarr"), file.with_name(f"{file.name}.json")
    result = job.finished_result(store, graph, root)
    if result is not None and file.exists() and job.noted(note, graph):
        print(f"{kernel} from {root}: finished already, skipped", flush=True)
        return
    if result is None:
        search = getattr(og, kernel)
        result = work.stage(
            f"{kernel} from {root}",
            lambda: search(graph, root, out=store, overwrite=True, **work.where),
        )
    # A note is never there beside a file of another graph.
    note.unlink(missing_ok=True)
    work.stage(f"export {file}", lambda: og.export(result, file, overwrite=True))
    job.write_note(note, graph)


def main() -> None:
    """Run what is not finished yet."""
    args = arguments()
    source = opened(args)
    args.folder.mkdir(parents=True, exist_ok=True)
    asked = {
        "edges": [str(Path(path).absolute()) for path in args.edges],
        "format": args.format,
        "directed": args.directed,
        "weight": args.weight,
    }
    with job.Job(args) as work:
        graph = work.graph(source, asked)
        kernels = args.kernels or (["bfs", "sssp"] if graph.weighted else ["bfs"])
        for kernel in dict.fromkeys(kernels):
            for root in dict.fromkeys(args.source):
                answer(work, graph, kernel, root, args.folder / f"{kernel}-{root}.{args.export}")


if __name__ == "__main__":
    job.run(main)
