"""Many sources of a graph in a store: within a share of memory, and through `ooc_graph.johnson`.

`within_shares` is ``stored`` of `johnson.py`. `measure` is ``public`` of `johnson.py` and of
`gpu_johnson.py`: what a first call takes, which reads and compiles, is kept apart. Then turns
are taken by the class of kernels alone, from rows in memory to distances in new memory; by the
public function to an answer in memory, new or of who asks (``into=``; page-locked where a device
searches); to a store in the folder (``out=``; its bytes may still be in the page cache); and to a
number for each source (``reduce=``), in memory and in a store. The first four give the distances of
``--stored`` sources, the others a number for each of ``--sources``. Answers are the same bytes.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness.graphs import random_arcs, some_rows
from harness.timing import Turns, medians, same_bytes, take_turns

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import APSP
from ooc_graph.memory.cpu.plan import least_bytes
from ooc_graph.strategies.many import tiers
from ooc_graph.types import AnyArray

OURS = "ooc-graph"
REDUCE = "eccentricity"
BLOCK = 64
KERNELS, IN_MEMORY, INTO, OUT = "kernels", "in memory", "into", "out"
REDUCED, REDUCED_OUT = "reduce", "reduce, out"


def stored_graph(options: argparse.Namespace, path: Path, *, negative: bool) -> Any:
    """The Kronecker graph, or the random one if vertices are given, in a store."""
    if options.vertices is None:
        return og.build(og.Kronecker(options.scale, weighted=True), path)
    _, u, v, weight = random_arcs(options.vertices, negative=negative)
    return og.build((u, v, weight), path, directed=True)


def within_shares(
    options: argparse.Namespace, folder: Path
) -> Iterator[tuple[dict[str, Any], Turns, dict[str, Any]]]:
    """Parameters, times in turns with the search in memory, and bytes, of each share in memory."""
    graph = stored_graph(options, folder / "g.zarr", negative=options.negative)
    method = tiers.methods_of(graph, APSP)[0]
    device, same = CpuDevice(options.threads), same_bytes()
    whole = device.apsp(graph.load("light", signed=True))
    sources = some_rows(graph.rows, options.sources or 64)
    same("in memory", whole.run(sources))
    facts = tiers.known_facts(graph, APSP, method)
    least, arcs = least_bytes(facts), facts.sides[0].arcs
    plain = plain_passes(graph, method, sources, options.lanes, device) * arcs * facts.arc_bytes
    for share in options.shares:
        budget = least + int(share * facts.arcs * facts.arc_bytes)
        kept = tiers.load_within(graph, APSP, method, budget, device)
        calls: dict[str, Callable[[], Any]] = {
            OURS: partial(kept.search.run, sources, batch_size=options.lanes),
            "in memory": partial(whole.run, sources),
        }
        before = kept.io_stats
        turns = take_turns(calls, options.repeats, check=same)
        parameters = {"vertices": graph.rows, "arcs": arcs, "negative": graph.has_negative_weights}
        parameters |= {"sources": len(sources), "share": share, "lanes": options.lanes}
        yield (
            parameters,
            turns,
            {
                "method": method,
                "heads": str(kept.plan.rule),
                "share_of_arcs_in_memory": kept.plan.head_arcs / kept.plan.facts.arcs,
                "bytes_read": kept.io_stats.since(before).bytes // options.repeats,
                "bytes_of_plain_passes": plain,
            },
        )
        kept.close()


def plain_passes(graph: Any, method: str, sources: AnyArray, lanes: int, device: CpuDevice) -> int:
    """Passes until nothing improves, over all batches or sources; some of these, scaled up."""
    facts = tiers.known_facts(graph, APSP, tiers.BATCHES)
    everything = least_bytes(facts) + 2 * graph.resident_bytes("light")
    kept = tiers.load_within(graph, APSP, tiers.BATCHES, everything, device)
    each = lanes if method == tiers.BATCHES else 1
    parts = [sources[begin : begin + each] for begin in range(0, len(sources), each)]
    for part in parts[:4]:
        kept.search.run(part, batch_size=each)
    passes = kept.search.passes * len(parts) // len(parts[:4])
    kept.close()
    return int(passes)


def measure(
    graph: og.Graph,
    kernels: Callable[[AnyArray], AnyArray],
    options: argparse.Namespace,
    *,
    device: str,
    room: Callable[[tuple[int, int], np.dtype[Any]], AnyArray],
    copy_rate: Callable[[int], float] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and figures: times of the first call, and of further ones in turns.

    ``kernels`` gives distances (sources, rows) from internal ids, by the class that the public
    function uses; ``room`` memory of a shape and a type, for ``into=``. ``copy_rate`` is bytes a
    second of a plain copy of so many bytes from the device to page-locked memory, which the answer
    in memory is set beside; None: there is no such copy.
    """
    sources = some_rows(graph.rows, options.sources or 1024)
    some = sources[: options.stored]
    all_ids = graph.original_of()[sources]
    ids, weights = all_ids[: len(some)], graph.weight_dtype
    dtype = weights if weights.kind == "f" else np.dtype(np.int64)
    there = room((len(some), graph.vertices), dtype)
    whole, numbers = (graph.path.with_name(name) for name in ("d.zarr", "numbers.zarr"))

    def johnson(ids: AnyArray, **more: Any) -> Any:
        return og.johnson(graph, ids, device=device, **more)

    def reduced(**more: Any) -> Any:
        return johnson(all_ids, reduce=REDUCE, **more).read(REDUCE)

    calls: dict[str, Callable[[], Any]] = {
        KERNELS: lambda: kernels(some),
        IN_MEMORY: lambda: johnson(ids).distance,
        INTO: lambda: johnson(ids, into=there).distance,
        OUT: lambda: johnson(ids, out=whole, overwrite=True),
        REDUCED: reduced,
        REDUCED_OUT: lambda: reduced(out=numbers, overwrite=True),
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
    }
    rates = {"out": OUT, "in_memory": IN_MEMORY, "into": INTO}
    figures |= {f"{name}_bytes_per_s": written / median[call] for name, call in rates.items()}
    if copy_rate is not None:
        # The answers are as large, and there are no more of them now.
        answers.clear()
        figures["copy_bytes_per_s"] = plain = copy_rate(written)
        for name in ("in_memory", "into"):
            figures[f"{name}_share_of_copy"] = figures[f"{name}_bytes_per_s"] / plain
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
