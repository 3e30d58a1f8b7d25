"""Many sources through `ooc_graph.johnson`, beside the class of kernels below it.

Both `johnson.py` and `gpu_johnson.py` have it as their way ``public``. A graph is built into a
folder and opened; what a first call takes, which reads it and compiles, is kept apart. Then turns
are taken by the class of kernels alone, from rows in memory to distances in new memory; by the
public function to an answer in memory, new or of who asks (``into=``; page-locked where a device
searches); to a store in the folder (``out=``; its bytes may still be in the page cache); and to a
number for each source (``reduce=``), in memory and in a store. The first four give the distances of
``--stored`` sources, the others a number for each of ``--sources``. Answers are compared, bit for
bit.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.types import AnyArray

REDUCE = "eccentricity"
BLOCK = 64
KERNELS, IN_MEMORY, INTO, OUT = "kernels", "in memory", "into", "out"
REDUCED, REDUCED_OUT = "reduce", "reduce, out"
Search = Callable[[AnyArray], AnyArray]


class PublicCalls:
    """Calls of one graph on one device, and their answers.

    Parameters
    ----------
    graph
        A built graph with weights.
    kernels
        Distances (sources, rows) from internal ids: the class that the public function uses.
    sources
        Internal ids, each once.
    stored
        How many of them matrices are wanted of.
    device
        ``cpu`` or ``cuda``.
    out
        Where a store may be written.
    room
        Makes memory of a shape and a type, for ``into=``.
    """

    def __init__(
        self,
        graph: og.Graph,
        kernels: Search,
        sources: AnyArray,
        *,
        stored: int,
        device: str,
        out: Path,
        room: Callable[[tuple[int, int], np.dtype[Any]], AnyArray],
    ) -> None:
        self._graph, self._device, self._out = graph, device, out
        self._internal_of, ids = graph.internal_of(), graph.original_of()[sources]
        some, numbers = sources[:stored], out.with_name("numbers.zarr")
        self._room = partial(room, (len(some), graph.vertices))
        self._into: AnyArray | None = None
        self.calls: dict[str, Callable[[], Any]] = {
            KERNELS: lambda: kernels(some),
            IN_MEMORY: lambda: self._johnson(ids[:stored]).distance,
            INTO: lambda: self._johnson(ids[:stored], into=self.into).distance,
            OUT: lambda: self._johnson(ids[:stored], out=out, overwrite=True),
            REDUCED: lambda: self._johnson(ids, reduce=REDUCE).read(REDUCE),
            REDUCED_OUT: lambda: self._johnson(
                ids, reduce=REDUCE, out=numbers, overwrite=True
            ).read(REDUCE),
        }

    @property
    def into(self) -> AnyArray:
        """Memory for the distances that was there before."""
        if self._into is None:
            weights = self._graph.weight_dtype
            assert weights is not None
            self._into = self._room(weights if weights.kind == "f" else np.dtype(np.int64))
        return self._into

    def _johnson(self, ids: AnyArray, **options: Any) -> Any:
        return og.johnson(self._graph, ids, device=self._device, **options)

    def require_equal(self, answers: dict[str, Any]) -> None:
        """End where they are not the same distances."""
        whole, kernels = answers[IN_MEMORY], answers[KERNELS]
        stored = answers[OUT].to_zarr()["distance"]
        has_row = self._internal_of >= 0
        order = self._internal_of[has_row]
        far = np.inf if whole.dtype.kind == "f" else np.iinfo(whole.dtype).max
        for begin in range(0, len(whole), BLOCK):
            part = slice(begin, begin + BLOCK)
            here = whole[part]
            for other in (stored, answers[INTO]):
                if other[part].tobytes() != here.tobytes():
                    raise SystemExit("what is stored, or elsewhere, differs from what is in memory")
            if kernels[part][:, order].tobytes() != here[:, has_row].tobytes():
                raise SystemExit("the public function's distances differ from the kernels'")
            largest = np.where(here < far, here, 0).max(axis=1)
            if not np.array_equal(answers[REDUCED][part][: len(here)], largest):
                raise SystemExit("the reductions are not those of the distances")
        if not np.array_equal(answers[REDUCED], answers[REDUCED_OUT]):
            raise SystemExit("reductions that are stored differ from those in memory")


def measure(
    calls: PublicCalls, repeats: int, copy_rate: Callable[[int], float] | None = None
) -> dict[str, Any]:
    """Times of every call: the first, and so many more in turns.

    Parameters
    ----------
    copy_rate
        Bytes a second of a plain copy of so many bytes from the device to page-locked memory,
        which the answer in memory is set beside; None: there is no such copy.
    """
    first: dict[str, float] = {}
    times: dict[str, list[float]] = {name: [] for name in calls.calls}
    answers: dict[str, Any] = {}
    # Before anything is timed.
    assert calls.into.size
    for turn in range(repeats + 1):
        for name, call in calls.calls.items():
            answers.pop(name, None)
            if name == INTO:
                # Nothing of the turn before is taken for an answer.
                calls.into.fill(-1)
            begun = perf_counter()
            answers[name] = call()
            elapsed_s = perf_counter() - begun
            if turn:
                times[name].append(elapsed_s)
            else:
                first[name] = elapsed_s
    calls.require_equal(answers)
    median = {name: statistics.median(found) for name, found in times.items()}
    written = answers[IN_MEMORY].nbytes
    for name, seconds in median.items():
        print(f"{name:10s} median {seconds:8.3f} s, first {first[name]:8.3f} s", flush=True)
    print(f"{written / 1e9:.2f} GB stored at {written / median[OUT] / 1e9:.2f} GB/s", flush=True)
    figures = {
        "first_s": first,
        "times_s": times,
        "median_s": median,
        "reduction": REDUCE,
        "distance_bytes": written,
        "out_bytes_per_s": written / median[OUT],
        "in_memory_bytes_per_s": written / median[IN_MEMORY],
        "into_bytes_per_s": written / median[INTO],
    }
    said = f"in memory at {figures['in_memory_bytes_per_s'] / 1e9:.2f} GB/s"
    said += f", into an array at {figures['into_bytes_per_s'] / 1e9:.2f} GB/s"
    if copy_rate is not None:
        # The answers are as large, and there are no more of them now.
        answers.clear()
        plain = copy_rate(written)
        figures |= {
            "copy_bytes_per_s": plain,
            "in_memory_share_of_copy": figures["in_memory_bytes_per_s"] / plain,
            "into_share_of_copy": figures["into_bytes_per_s"] / plain,
        }
        said += f": {figures['in_memory_share_of_copy']:.0%} and "
        said += f"{figures['into_share_of_copy']:.0%} of a plain copy"
    print(said, flush=True)
    return figures


def parameters_of(graph: og.Graph, scale: int | None, sources: int, stored: int) -> dict[str, Any]:
    """What a record says was measured; ``scale`` is None for random graphs."""
    return {
        "scale": scale,
        "vertices": graph.vertices,
        "arcs": graph.arcs,
        "negative": graph.has_negative_weights,
        "sources": sources,
        "stored_sources": min(stored, sources),
    }
