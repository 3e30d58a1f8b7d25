"""Answers of one CUDA device, by where they lie, beside plain copies of as many bytes.

    python benchmarks/gpu_answers.py [--scales 24,26] [--kernels bfs,sssp] [--repeats 11]

`og.bfs` and `og.sssp` search a graph that the device holds, from one vertex, and hand over parents
and levels or distances by original id: in arrays on the device, in new memory of the host, and in
arrays given by `into=` that are plain memory used before, or page-locked. Times are medians of wall
time, of all but the search. Beside each stands what it is held to: a copy within the device, the
first touch of new memory by all threads, and one copy to page-locked memory. Answers are compared.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import cupyx
import numpy as np
from harness.device import DeviceProgram, timed
from harness.program import KERNELS

import ooc_graph as og
from ooc_graph.threads import Threads, cores

MEASURES = {"bfs": ("level", np.int32), "sssp": ("distance", np.float32)}
PART_BYTES = 1 << 22


class Turns:
    """Medians of repeated calls, in milliseconds."""

    def __init__(self, repeats: int) -> None:
        self.repeats, self.figures = repeats, dict[str, float]()

    def take(self, name: str, call: Callable[[], Any]) -> None:
        """Call, and note the median time; of a search its own time is taken off."""
        found = []
        for _ in range(self.repeats):
            took = timed(call)
            found.append(took.elapsed_s - getattr(took.result, "elapsed_s", 0.0))
            del took
        self.figures[f"{name}_ms"] = 1e3 * statistics.median(found[1:])


def touched(size: int) -> np.ndarray[Any, Any]:
    """New memory, of which all threads have touched each page."""
    memory = np.empty(size, np.uint8)
    with Threads(cores()) as executor:
        parts = range(0, size, PART_BYTES)
        list(executor.map(lambda start: memory[start : start + PART_BYTES].fill(1), parts))
    return memory


def measured(graph: og.Graph, kernel: str, key: int, repeats: int) -> dict[str, Any]:
    """Figures of one kernel."""
    name, dtype = MEASURES[kernel]
    turns = Turns(repeats)

    def call(**more: Any) -> Any:
        return getattr(og, kernel)(graph, key, device="cuda", **more)

    def read() -> Any:
        answer = call()
        assert len(answer.parent) == len(answer.read(name))
        return answer

    used = {"parent": np.ones(graph.vertices, np.int64), name: np.ones(graph.vertices, dtype)}
    locked = {one: cupyx.empty_pinned(column.shape, column.dtype) for one, column in used.items()}
    size = sum(column.nbytes for column in used.values())
    there, copy = cupy.zeros(size, np.uint8), cupy.empty(size, np.uint8)
    plain = cupyx.empty_pinned(size, np.uint8)
    turns.take("on_device", lambda: call(arrays="cupy"))
    turns.take("copy_within_device", lambda: cupy.copyto(copy, there))
    turns.take("new_memory", read)
    turns.take("first_touch", lambda: touched(size))
    turns.take("into_used", lambda: call(into=used))
    turns.take("into_page_locked", lambda: call(into=locked))
    turns.take("copy_to_page_locked", lambda: there.get(out=plain))
    right = call(arrays="cupy")
    for columns in (used, locked):
        for one, column in columns.items():
            np.testing.assert_array_equal(getattr(right, one).get(), column)
    found = turns.figures
    ratios = {
        "page_locked_to_copy": found["into_page_locked_ms"] / found["copy_to_page_locked_ms"],
        "new_memory_to_copy": found["new_memory_ms"] / found["copy_to_page_locked_ms"],
        "new_memory_to_touch": found["new_memory_ms"] / found["first_touch_ms"],
        "on_device_to_copy": found["on_device_ms"] / found["copy_within_device_ms"],
    }
    return {"answer_bytes": size, **found, **ratios}


def main() -> None:
    program = DeviceProgram("gpu_answers", __doc__, scales="24,26", kernels=KERNELS, repeats=11)
    options = program.parse()
    with tempfile.TemporaryDirectory() as folder:
        for scale in options.scales:
            source, path = og.Kronecker(scale, weighted=True), Path(folder) / f"{scale}.zarr"
            graph = og.build(source, path, rows="both", device="cuda")
            key = int(source.search_keys(1)[0])
            for kernel in options.kernels:
                figures = measured(graph, kernel, key, options.repeats)
                program.flat_record({"kernel": kernel, "scale": scale}, figures)


if __name__ == "__main__":
    main()
