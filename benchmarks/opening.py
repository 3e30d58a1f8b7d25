"""Time to open a built graph, as a function of its number of chunk files.

    python benchmarks/opening.py [--chunks 10000]

A store of many chunks is simulated by small ones: opening looks at every file's name, size and
last four bytes, whatever its length. Appends to records/opening.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from unittest import mock

import ooc_graph as og
from ooc_graph.layout import metadata
from ooc_graph.report.records import append_record
from ooc_graph.shards import weave

RECORDS = Path(__file__).parent / "records" / "opening.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    source = og.Kronecker(16, weighted=False)
    elements = -(-2 * source.edges // options.chunks)
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch.object(metadata, "chunk_length", lambda length, _: min(length, elements) or 1),
        mock.patch.object(weave, "CHUNK_BYTES", 4 * elements),
    ):
        path = Path(scratch) / "g.zarr"
        og.build(source, path)
        times = []
        for _ in range(options.repeats):
            begun = perf_counter()
            graph = og.open(path)
            times.append(perf_counter() - begun)
        files = len(graph.stored.manifest.files)
    print(f"opening {files} files: {statistics.median(times):.3f} s (median of {len(times)})")
    append_record(
        RECORDS,
        {
            "benchmark": "opening",
            "parameters": {"files": files},
            "figures": {"times_s": times},
        },
    )


if __name__ == "__main__":
    main()
