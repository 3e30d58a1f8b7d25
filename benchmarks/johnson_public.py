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

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from harness.graphs import some_rows
from harness.timing import medians, take_turns

import ooc_graph as og
from ooc_graph.types import AnyArray

REDUCE = "eccentricity"
BLOCK = 64
KERNELS, IN_MEMORY, INTO, OUT = "kernels", "in memory", "into", "out"
REDUCED, REDUCED_OUT = "reduce", "reduce, out"


def measure(
    graph: og.Graph,
    kernels: Callable[[AnyArray], AnyArray],
    options: argparse.Namespace,
    *,
    device: str,
    room: Callable[[tuple[int, int], np.dtype[Any]], AnyArray],
    copy_rate: Callable[[int], float] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and figures: times of every call, the first, and so many more in turns.

    Parameters
    ----------
    graph
        A built graph with weights.
    kernels
        Distances (sources, rows) from internal ids: the class that the public function uses.
    options
        Number of sources, of those whose distances are stored, of repeats, and the scale.
    device
        ``cpu`` or ``cuda``.
    room
        Makes memory of a shape and a type, for ``into=``.
    copy_rate
        Bytes a second of a plain copy of so many bytes from the device to page-locked memory,
        which the answer in memory is set beside; None: there is no such copy.
    """
    sources = some_rows(graph.rows, options.sources or 1024)
    some = sources[: options.stored]
    all_ids = graph.original_of()[sources]
    ids = all_ids[: len(some)]
    weights = graph.weight_dtype
    assert weights is not None
    there = room(
        (len(some), graph.vertices), weights if weights.kind == "f" else np.dtype(np.int64)
    )
    whole, numbers = (graph.path.with_name(name) for name in ("d.zarr", "numbers.zarr"))

    def johnson(ids: AnyArray, **more: Any) -> Any:
        return og.johnson(graph, ids, device=device, **more)

    calls: dict[str, Callable[[], Any]] = {
        KERNELS: lambda: kernels(some),
        IN_MEMORY: lambda: johnson(ids).distance,
        INTO: lambda: johnson(ids, into=there).distance,
        OUT: lambda: johnson(ids, out=whole, overwrite=True),
        REDUCED: lambda: johnson(all_ids, reduce=REDUCE).read(REDUCE),
        REDUCED_OUT: lambda: johnson(all_ids, reduce=REDUCE, out=numbers, overwrite=True).read(
            REDUCE
        ),
    }
    answers: dict[str, Any] = {}

    def before(name: str) -> None:
        answers.pop(name, None)
        if name == INTO:
            # Nothing of the turn before is taken for an answer.
            there.fill(-1)

    first = take_turns(calls, 1, before=before, check=answers.__setitem__)
    turns = take_turns(calls, options.repeats, before=before, check=answers.__setitem__)
    require_equal(graph, answers)
    median = medians(turns.times_s)
    written = answers[IN_MEMORY].nbytes
    figures = {
        "first_s": {name: found[0] for name, found in first.times_s.items()},
        "times_s": turns.times_s,
        "median_s": median,
        "reduction": REDUCE,
        "distance_bytes": written,
        "out_bytes_per_s": written / median[OUT],
        "in_memory_bytes_per_s": written / median[IN_MEMORY],
        "into_bytes_per_s": written / median[INTO],
    }
    if copy_rate is not None:
        # The answers are as large, and there are no more of them now.
        answers.clear()
        plain = copy_rate(written)
        figures |= {
            "copy_bytes_per_s": plain,
            "in_memory_share_of_copy": figures["in_memory_bytes_per_s"] / plain,
            "into_share_of_copy": figures["into_bytes_per_s"] / plain,
        }
    parameters = {
        "scale": None if options.vertices else options.scale,
        "vertices": graph.vertices,
        "arcs": graph.arcs,
        "negative": graph.has_negative_weights,
        "sources": len(sources),
        "stored_sources": len(some),
    }
    return parameters, figures


def require_equal(graph: og.Graph, answers: dict[str, Any]) -> None:
    """End where they are not the same distances."""
    whole, kernels = answers[IN_MEMORY], answers[KERNELS]
    stored = answers[OUT].to_zarr()["distance"]
    internal_of = graph.internal_of()
    has_row = internal_of >= 0
    order = internal_of[has_row]
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
