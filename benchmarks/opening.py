"""Time to open a built graph, as a function of its number of chunk files.

    python benchmarks/opening.py [--chunks 10000]

A store of many chunks is simulated by small ones: opening looks at every file's name, size and
last four bytes, whatever its length. Appends to records/opening.jsonl.
"""

from __future__ import annotations

import statistics
from unittest import mock

from harness.program import Program
from harness.timing import timed

import ooc_graph as og
from ooc_graph.layout import metadata
from ooc_graph.shards import merge_writer


def main() -> None:
    program = Program("opening", __doc__, repeats=5)
    program.add("--chunks", type=int, default=10_000)
    options = program.parse()
    source = og.Kronecker(16, weighted=False)
    elements = -(-2 * source.edges // options.chunks)
    with (
        program.scratch() as folder,
        mock.patch.object(metadata, "chunk_length", lambda length, _: min(length, elements) or 1),
        mock.patch.object(merge_writer, "CHUNK_BYTES", 4 * elements),
    ):
        graph = og.build(source, folder / "g.zarr")
        times = [timed(lambda: og.open(graph.path)).elapsed_s for _ in range(options.repeats)]
        files = len(graph.stored.manifest.files)
    figures = {"times_s": times, "median_s": statistics.median(times)}
    program.record({"files": files}, figures)


if __name__ == "__main__":
    main()
