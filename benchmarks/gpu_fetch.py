"""Rows of pinned host memory to a CUDA device: read where they are, or copied.

    python benchmarks/gpu_fetch.py [--gib 4]

What a search that has listed rows can do about them. *Read*: warps read the listed rows over the
bus, as the searches do, for rows of several lengths and several shares of all rows, chosen at
random and listed in order. *Copied*: the host has ranges copied to the device on two streams in
turn, from a compiled loop, for ranges of several lengths, each behind the one before it; no kernel
looks at what came, no range is looked for, and none has bytes that nobody wants, all of which is in
the copies' favour. ``even_share`` is the share of the bytes from which copying all of them, in
blocks of 4 MiB, takes less time than reading the listed rows. Appends to records/gpu_fetch.jsonl.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import cupy
import numba
import numpy as np
from gpu_ceilings import kernel
from harness.device import DeviceProgram, event_seconds, timed
from harness.tables import show
from harness.timing import repeated

from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray

ROW_WORDS = (8, 32, 128, 1024)
SHARES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
RANGE_BYTES = (128, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20)
BLOCK_BYTES = 4 << 20
MOST_RANGES, STAGED_BYTES = 1 << 17, 256 << 20
THREADS, BLOCKS = 512, 132 * 4


def read(held: PinnedArray, words: int, share: float) -> dict[str, float]:
    """Rate of reading some of all rows of so many words."""
    rows = len(held.host) // words
    rng = np.random.default_rng(1)
    chosen = np.flatnonzero(rng.random(rows) < share).astype(np.uint32)
    listed, total = cupy.asarray(chosen), cupy.zeros(1, np.uint64)
    arguments = held.device, listed, np.int64(len(chosen)), np.int64(words), total
    launch = kernel("sum_rows")

    def run() -> None:
        launch((BLOCKS,), (THREADS,), arguments)

    run()
    few = chosen[:: max(1, len(chosen) // 1000)]
    got = cupy.zeros(1, np.uint64)
    some = cupy.asarray(few), np.int64(len(few)), np.int64(words), got
    launch((BLOCKS,), (THREADS,), (held.device, *some))
    right = held.host.reshape(rows, words)[few].sum(dtype=np.uint64)
    assert int(got[0]) == int(right), (got, right)
    seconds = min(event_seconds(run) for _ in range(3))
    size = 4 * words * len(chosen)
    return {
        "row_bytes": 4 * words,
        "share": share,
        "rows": len(chosen),
        "rows_per_s": len(chosen) / seconds,
        "bytes_per_s": size / seconds,
    }


def copier() -> Callable[..., None]:
    """Issues copies to the device, one range after the other, on two streams."""
    copy = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2
    copy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    copy.restype = ctypes.c_int

    @numba.njit
    def issue(
        target: int, source: int, size: int, count: int, staged: int, first: int, second: int
    ) -> int:
        failed = 0
        for number in range(count):
            stream = first if number % 2 else second
            failed |= copy(
                np.uint64(target + number * size % staged),
                np.uint64(source + number * size),
                np.uint64(size),
                stream,
            )
        return failed

    return issue


def copied(held: PinnedArray, size: int, issue: Callable[..., int]) -> dict[str, float]:
    """Rate of copying ranges of so many bytes."""
    count = min(MOST_RANGES, held.host.nbytes // size)
    target = cupy.empty(STAGED_BYTES, np.uint8)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    ends = target.data.ptr, held.host.ctypes.data, size, count, STAGED_BYTES

    def run() -> None:
        failed = issue(*ends, *(stream.ptr for stream in streams))
        assert not failed, failed

    seconds = min(one.elapsed_s for one in repeated(run, 3, timed))
    return {
        "range_bytes": size,
        "ranges": count,
        "ranges_per_s": count / seconds,
        "bytes_per_s": count * size / seconds,
    }


def main() -> None:
    program = DeviceProgram("gpu_fetch", __doc__)
    program.add("--gib", type=int, default=4)
    options = program.parse()
    held = PinnedArray(options.gib << 28, np.uint32, threads=16)
    held.host[:] = np.arange(len(held.host), dtype=np.uint32)
    reads = [read(held, words, share) for words in ROW_WORDS for share in SHARES]
    issue = copier()
    copies = [copied(held, size, issue) for size in RANGE_BYTES]
    (whole,) = (one["bytes_per_s"] for one in copies if one["range_bytes"] == BLOCK_BYTES)
    for one in reads:
        one["even_share"] = one["bytes_per_s"] / whole
    show("read", reads)
    show("copied", copies)
    program.append(parameters={"bytes": held.host.nbytes}, read=reads, copied=copies)


if __name__ == "__main__":
    main()
