"""The memory limit of a build is kept: peak of a fresh process less what it holds when idle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MIB = 1 << 20
Record = Callable[[str, object], None]

# Kernels are compiled by a small build of the same types first; then the watched build.
CHILD = """
import contextlib, gc, json, sys
from pathlib import Path
import numpy as np
import ooc_graph as og
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.runtime.cluster import local_cluster

scale, workers, limit, rows, gapped, folder = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
kronecker = og.Kronecker(scale)

class Gapped:
    '''The generator's tuples with ids spread over 2**62, declared by nothing.'''
    id_range, rereadable = None, True

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self, unit, block_edges):
        from ooc_graph.types import EdgeBlock
        for b in self.inner.read(unit, block_edges):
            yield EdgeBlock(b.source << 40, b.target << 40, b.weight)

def source(k):
    return Gapped(k) if gapped == "gapped" else k

with local_cluster(workers) if workers else contextlib.nullcontext() as client:
    og.build(source(og.Kronecker(10)), Path(folder) / "warm.zarr", rows=rows, client=client)
    gc.collect()
    with MemoryWatch(interval_s=0.005) as watch:
        g = og.build(
            source(kronecker), Path(folder) / "g.zarr", rows=rows, client=client, memory_limit=limit
        )
print(json.dumps({"idle": watch.baseline_bytes, "peak": watch.peak_bytes, "arcs": g.arcs}))
"""


def measure(
    tmp_path: Path, scale: int, limit: str, rows: str, ids: str = "dense", workers: int = 0
) -> dict[str, int]:
    """Bytes when idle and at the peak, of the process and its Dask workers if there are any."""
    arguments = [str(scale), str(workers), limit, rows, ids, str(tmp_path)]
    command = [sys.executable, "-c", CHILD, *arguments]
    # As a program of the user's has it: nothing set for the C library's allocator.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(record: Record, found: dict[str, int], limit_mib: int, edge_list_bytes: int) -> None:
    assert limit_mib * MIB < edge_list_bytes, "the limit must be well under the edge list"
    used = found["peak"] - found["idle"]
    record("MiB above idle", round(used / MIB, 1))
    assert used <= limit_mib * MIB, f"{used / MIB:.1f} MiB of {limit_mib} MiB"


@pytest.mark.parametrize(("rows", "limit_mib", "tuple_bytes"), [("hub", 60, 16), ("both", 72, 20)])
def test_a_small_build_keeps_its_limit(
    tmp_path: Path, record_property: Record, rows: str, limit_mib: int, tuple_bytes: int
) -> None:
    found = measure(tmp_path, 18, f"{limit_mib}MiB", rows)
    check(record_property, found, limit_mib, tuple_bytes << 22)


@pytest.mark.slow
@pytest.mark.parametrize("ids", ["dense", "gapped"])
@pytest.mark.parametrize("rows", ["hub", "both"])
def test_a_large_build_keeps_its_limit(
    tmp_path: Path, record_property: Record, rows: str, ids: str
) -> None:
    found = measure(tmp_path, 20, "128MiB", rows, ids)
    check(record_property, found, 128, 16 << 24)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "limit_mib"), [(1, 128), (2, 192)])
def test_a_build_on_a_cluster_keeps_its_limit(
    tmp_path: Path, record_property: Record, workers: int, limit_mib: int
) -> None:
    found = measure(tmp_path, 20, f"{limit_mib}MiB", "both", workers=workers)
    check(record_property, found, limit_mib, 20 << 24)
