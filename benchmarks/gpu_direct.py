"""Units of a store to a CUDA device: by this package's readers, and by kvikio straight there.

    python benchmarks/gpu_direct.py [--scale 26] [--share 0.125] [--repeats 2] [--folder DIR]

Of Graph500's rows a share of all units of 64 KiB, chosen at random, is brought to the device in the
order of the store, in batches of 256; the page cache of the store's chunks is dropped before each
pass. ``ours`` is what searches do: threads read into pinned memory and hold every unit against its
crc32c, and a batch is copied to the device while the next is read. ``kvikio`` (GPUDirect Storage
where the machine has it, else its own threads and bounce buffers) reads into memory of the device,
two batches in flight, and checks nothing. Both read the same stretches of files that were opened
before, kvikio's registered. A sum over what came shows that it was the same. Appends to
records/gpu_direct.jsonl.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cupy
import kvikio
import kvikio.cufile_driver
import kvikio.defaults
import numpy as np
from gpu_disk import disk_bytes_per_s
from harness.device import DeviceProgram, free_memory
from harness.files import drop_from_cache
from harness.timing import timed

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime.pinned import pinned_buffer
from ooc_graph.layout.names import CRC_BYTES, SIDECAR_BYTES
from ooc_graph.memory.cpu.disk import DiskUnits
from ooc_graph.memory.cuda.disk import READERS
from ooc_graph.shards.tiers import read_lengths

BATCH_UNITS = 256
KVIKIO = {
    "as it comes": {},
    "as many threads": {"num_threads": READERS},
    "64 threads": {"num_threads": 64},
    "as many threads, direct": {"num_threads": READERS, "auto_direct_io_read": True},
    "64 threads, direct": {"num_threads": 64, "auto_direct_io_read": True},
}


class Chunks:
    """Chunk files of the rows' neighbours, and the units that they have among all."""

    def __init__(self, graph: og.Graph) -> None:
        (offsets,), (self.arrays,) = (
            graph.arrays_of("hub", name) for name in ("offsets", "neighbors")
        )
        _, _, self.first = read_lengths(graph.stored, offsets, graph.rows, np.dtype(np.uint32))
        self.paths: list[Path] = []
        begins, wholes = [], []
        for array, first in zip(self.arrays, self.first.tolist(), strict=True):
            spec = graph.stored.spec(array)
            for index in range(spec.chunks):
                path = graph.path / spec.chunk_path(index)
                self.paths.append(path)
                begins.append((4 * first + index * spec.chunk_bytes) // SIDECAR_BYTES)
                wholes.append((path.stat().st_size - CRC_BYTES) // SIDECAR_BYTES)
        self.begins, self.wholes = np.array(begins), np.array(wholes)

    def batches(self, share: float) -> list[np.ndarray]:
        """Some of all whole units in ascending order, a batch after the other."""
        pairs = zip(self.begins.tolist(), self.wholes.tolist(), strict=True)
        whole = np.concatenate([np.arange(begin, begin + count) for begin, count in pairs])
        chosen = whole[np.random.default_rng(1).random(len(whole)) < share]
        return [chosen[at : at + BATCH_UNITS] for at in range(0, len(chosen), BATCH_UNITS)]


class Ours:
    """What a search reads by."""

    def __init__(self, graph: og.Graph, chunks: Chunks) -> None:
        self.units = DiskUnits(
            graph.stored,
            [chunks.arrays],
            chunks.first,
            batch_units=BATCH_UNITS,
            readers=READERS,
            room=pinned_buffer,
        )
        self._there = cupy.empty(BATCH_UNITS * SIDECAR_BYTES // 4, np.uint32)
        self._sum = cupy.zeros(1, np.uint64)

    def run(self, batches: list[np.ndarray]) -> int:
        """A sum over all that came."""
        self._sum[...] = 0
        for (column,) in self.units.stage([batch] for batch in batches):
            there = self._there[: len(column)]
            there.set(column)
            self._sum += there.sum(dtype=np.uint64)
            cupy.cuda.get_current_stream().synchronize()
        return int(self._sum[0])


class Direct:
    """kvikio, with two batches in flight."""

    def __init__(self, chunks: Chunks, stack: ExitStack) -> None:
        self._files = [stack.enter_context(kvikio.CuFile(path)) for path in chunks.paths]
        self._begins = chunks.begins
        self._there = cupy.empty((2, BATCH_UNITS * SIDECAR_BYTES), np.uint8)
        self._sum = cupy.zeros(1, np.uint64)
        self.requests = 0

    def _stretches(self, batch: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
        """File, unit within it, place in the batch and length of what lies together."""
        file = np.searchsorted(self._begins, batch, "right") - 1
        begins = np.flatnonzero(
            (np.diff(batch, prepend=-2) != 1) | (np.diff(file, prepend=-1) != 0)
        )
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(batch)], strict=True):
            number = int(file[begin])
            yield number, int(batch[begin] - self._begins[number]), begin, end - begin

    def _begin(self, batch: np.ndarray, turn: int) -> list[Any]:
        futures = []
        for number, unit, place, length in self._stretches(batch):
            at, size = place * SIDECAR_BYTES, length * SIDECAR_BYTES
            there = self._there[turn, at : at + size]
            futures.append(self._files[number].pread(there, size, unit * SIDECAR_BYTES))
        self.requests += len(futures)
        return futures

    def run(self, batches: list[np.ndarray]) -> int:
        """A sum over all that came."""
        self._sum[...] = 0
        self.requests = 0
        begun = self._begin(batches[0], 0)
        for number, batch in enumerate(batches):
            got = sum(future.get() for future in begun)
            assert got == len(batch) * SIDECAR_BYTES, got
            turn = number % 2
            if number + 1 < len(batches):
                begun = self._begin(batches[number + 1], 1 - turn)
            there = self._there[turn, : len(batch) * SIDECAR_BYTES].view(np.uint32)
            self._sum += there.sum(dtype=np.uint64)
            cupy.cuda.get_current_stream().synchronize()
        return int(self._sum[0])


class Passes:
    """Measures passes over the same units, with a cold page cache; what comes must be the same."""

    def __init__(self, batches: list[np.ndarray], paths: list[Path], repeats: int) -> None:
        self._batches, self._paths, self._repeats = batches, paths, repeats
        self._sums: set[int] = set()

    def measure(self, run: Callable[[list[np.ndarray]], int]) -> dict[str, Any]:
        run(self._batches[:2])
        times = []
        for _ in range(self._repeats):
            drop_from_cache(self._paths)
            elapsed_s, _, total = timed(lambda: run(self._batches))
            times.append(elapsed_s)
            self._sums.add(total)
        assert len(self._sums) == 1, self._sums
        size = SIDECAR_BYTES * sum(map(len, self._batches))
        return {"times_s": times, "bytes_per_s": size / statistics.median(times)}


def main() -> None:
    program = DeviceProgram("gpu_direct", __doc__, scale=26, repeats=2, folder=None)
    program.add("--share", type=float, default=0.125)
    options = program.parse()
    figures: dict[str, Any] = {}
    with program.scratch() as scratch:
        source = og.Kronecker(options.scale)
        graph = og.build(source, scratch / "graph.zarr", rows="hub", device="cuda")
        free_memory()
        chunks = Chunks(graph)
        disk = disk_bytes_per_s(chunks.paths)
        ours = Ours(graph, chunks)
        batches = chunks.batches(options.share)
        passes = Passes(batches, chunks.paths, options.repeats)
        figures["ours"] = passes.measure(ours.run)
        for name, settings in KVIKIO.items():
            kvikio.defaults.set(settings)
            with ExitStack() as files:
                direct = Direct(chunks, files)
                found = passes.measure(direct.run)
            figures[f"kvikio, {name}"] = found | {"requests": direct.requests}
        # Once more, as a host may keep what its machines read.
        figures["ours, again"] = passes.measure(ours.run)
        ours.units.close()
    first = figures["ours"]["bytes_per_s"]
    for one in figures.values():
        one["of_ours"] = one["bytes_per_s"] / first
    parameters = {
        "scale": options.scale,
        "share": options.share,
        "batch_units": BATCH_UNITS,
        "units": sum(map(len, batches)),
    }
    facts = {
        "version": kvikio.__version__,
        "compatibility_mode": str(kvikio.defaults.get("compat_mode")),
        "is_gds_available": bool(kvikio.cufile_driver.properties.is_gds_available),
        "has_nvidia_fs": Path("/proc/driver/nvidia-fs").exists(),
    }
    program.record(parameters, figures, kvikio=facts, disk_bytes_per_s=disk)


if __name__ == "__main__":
    main()
