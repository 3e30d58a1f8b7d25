"""Bits an arc, and decoding speed, of the ways to store neighbours in fewer bits.

    python benchmarks/packing.py GRAPH.zarr... [--repeats 7]
    python benchmarks/packing.py --beside PLAIN.zarr COMPRESSED.zarr [--repeats 5]

For each row order of a store, of all its out-neighbours, on one thread:

- ``raw``: as stored; its speed is that of a copy,
- ``packed``: ceil(log2 rows) bits each, by the package's own loops, in units of 64 KiB of numbers,
- ``gaps``: what each neighbour is beyond the last one, modulo the number of rows, in blocks of 128
  of one width, with what is wider listed apart (PFOR-delta); the bits lie in four lanes, as vector
  instructions like them, the sums are made one by one,
- ``elias-fano``: each row on its own.

The last two are for rows that ascend by id; they are left out of others. Each way is decoded whole
and compared. Words that would say where blocks or rows begin are not counted.

``--beside`` compares a store with one built of the same edges with ``--compress``, in turn: loading
all rows, with their chunks in the page cache and dropped from it before, and searches with a part
of the arcs in memory, whose answers must be the same.
"""

from __future__ import annotations

import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import drop_from_cache
from harness.program import Program, load_average
from harness.timing import rates, same_bytes, take_turns, timed

import ooc_graph as og
from ooc_graph.kernels.common.bitmap import lowest_bit
from ooc_graph.kernels.common.compiled import kernel as compiled
from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import HUB, LIGHT, SIDECAR_BYTES, rows_path
from ooc_graph.layout.packed_loops import pack, unpack
from ooc_graph.memory.cpu.plan import HeadRule, Plan
from ooc_graph.runtime.machine import cores
from ooc_graph.shards.tiers import facts_of, load_tiers
from ooc_graph.types import AnyArray

BLOCK = 128
MOST_ARCS = 1 << 24
"""Arcs that are looked at, from the first row on and again evenly over the rows."""


@compiled
def _encode_gaps(values: Any, count: int, words: Any) -> int:
    """Blocks of 128 one after the other; the words that they take.

    A block is its width, the number of exceptions, 32 slots of 4 lanes, the places of the
    exceptions in bytes, and the exceptions.
    """
    at, before = 0, np.int64(-1)
    for begin in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - begin)
        best, best_words = 32, BLOCK
        for width in range(32):
            wide, last = 0, before
            for index in range(begin, begin + size):
                wide += (np.int64(values[index]) - last - 1) % count >> width != 0
                last = np.int64(values[index])
            if 4 * width + wide + (wide + 3) // 4 < best_words:
                best, best_words = width, 4 * width + wide + (wide + 3) // 4
        header, wide, mask = at, 0, (np.int64(1) << best) - 1
        listed = at + 1 + 4 * best
        for word in range(header + 1, header + 1 + 4 * best + (BLOCK + 3) // 4):
            words[word] = 0
        for index in range(size):
            gap = (np.int64(values[begin + index]) - before - 1) % count
            before = np.int64(values[begin + index])
            bit, lane = (index >> 2) * best, index & 3
            place, shift = at + 1 + 4 * (bit >> 5) + lane, bit & 31
            if best:
                words[place] |= (gap & mask) << shift
                if shift + best > 32:
                    words[place + 4] |= (gap & mask) >> (32 - shift)
            if gap >> best:
                words[listed + (wide >> 2)] |= index << 8 * (wide & 3)
                wide += 1
        values_at, wide = listed + (wide + 3) // 4, 0
        last = np.int64(values[begin - 1]) if begin else np.int64(-1)
        for index in range(begin, begin + size):
            gap = (np.int64(values[index]) - last - 1) % count
            last = np.int64(values[index])
            if gap >> best:
                words[values_at + wide] = gap
                wide += 1
        words[header] = best | wide << 8
        at = values_at + wide
    return at


@compiled
def _decode_gaps(words: Any, count: int, gaps: Any, values: Any) -> None:
    at, before = 0, np.int64(-1)
    for begin in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - begin)
        width, wide = np.int64(words[at] & 255), np.int64(words[at] >> 8)
        mask = np.uint32((1 << width) - 1)
        at += 1
        for slot in range(32):
            bit = slot * width
            place, shift = at + 4 * (bit >> 5), np.uint32(bit & 31)
            if shift + width > 32:
                back = np.uint32(32 - shift)
                for lane in range(4):
                    low, high = words[place + lane], words[place + 4 + lane]
                    gaps[4 * slot + lane] = (low >> shift | high << back) & mask
            else:
                for lane in range(4):
                    gaps[4 * slot + lane] = words[place + lane] >> shift & mask
        at += 4 * width
        listed, at = at, at + (wide + 3) // 4
        for index in range(wide):
            gaps[words[listed + (index >> 2)] >> 8 * (index & 3) & 255] = words[at + index]
        at += wide
        for index in range(size):
            before += np.int64(gaps[index]) + 1
            before -= count if before >= count else 0
            values[begin + index] = before


@compiled
def _encode_elias_fano(offsets: Any, values: Any, count: int, low: Any, high: Any) -> int:
    """Low bits of all rows, then high ones in unary; the bits that they take."""
    low_at, high_at = 0, 0
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        bits = 0
        while (end - begin) << (bits + 1) <= count:
            bits += 1
        for index in range(begin, end):
            value = np.uint64(values[index])
            part = value & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
            low[low_at >> 6] |= part << np.uint64(low_at & 63)
            if (low_at & 63) + bits > 64:
                low[(low_at >> 6) + 1] |= part >> np.uint64(64 - (low_at & 63))
            low_at += bits
            place = high_at + np.int64(value >> np.uint64(bits)) + index - begin
            high[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
        if end > begin:
            high_at += (np.int64(values[end - 1]) >> bits) + end - begin
    return low_at + high_at


@compiled
def _decode_elias_fano(offsets: Any, low: Any, high: Any, count: int, values: Any) -> None:
    low_at, high_at = 0, 0
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        bits = 0
        while (end - begin) << (bits + 1) <= count:
            bits += 1
        mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
        word_at, first = high_at >> 6, high_at
        word = high[word_at] >> np.uint64(high_at & 63) << np.uint64(high_at & 63)
        for index in range(begin, end):
            while word == np.uint64(0):
                word_at += 1
                word = high[word_at]
            place = (word_at << 6) + lowest_bit(word)
            word &= word - np.uint64(1)
            shift = np.uint64(low_at & 63)
            part = low[low_at >> 6] >> shift
            if shift + np.uint64(bits) > np.uint64(64):
                part |= low[(low_at >> 6) + 1] << (np.uint64(64) - shift)
            values[index] = (
                np.uint64(place - first - index + begin) << np.uint64(bits) | part & mask
            )
            low_at += bits
            high_at = place + 1


def part_of(graph: og.Graph, order: str) -> tuple[AnyArray, AnyArray]:
    """Offsets from 0 on and neighbours of blocks of rows, evenly over the first shard."""
    group = rows_path(0, "out", order)
    offsets = graph.stored.read(f"{group}/offsets").astype(np.int64)
    neighbors = graph.stored.read(f"{group}/neighbors")
    if len(neighbors) <= MOST_ARCS:
        return offsets, neighbors
    parts, lengths = [], []
    share = MOST_ARCS // 16
    for piece in range(16):
        first = int(np.searchsorted(offsets, len(neighbors) * piece // 16))
        last = int(np.searchsorted(offsets, offsets[first] + share, "right")) - 1
        parts.append(neighbors[offsets[first] : offsets[last]])
        lengths.append(np.diff(offsets[first : last + 1]))
    found = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return found, np.concatenate(parts)


def packed(neighbors: AnyArray, rows: int) -> tuple[Any, float]:
    unit, bits = SIDECAR_BYTES // neighbors.dtype.itemsize, max(1, (rows - 1).bit_length())
    padded = np.zeros(-(-len(neighbors) // unit) * unit, neighbors.dtype)
    padded[: len(neighbors)] = neighbors
    values = padded.reshape(-1, 64, unit // 64)
    words = np.empty((len(values), bits, unit // 64), np.uint64)
    none, mask = np.uint64(0), np.uint64((1 << bits) - 1)
    pack(values, none, ~none, words)
    found = np.empty_like(values)

    def decode() -> AnyArray:
        unpack(words, none, mask, found)
        return found.reshape(-1)[: len(neighbors)]

    return decode, bits


def gaps(neighbors: AnyArray, rows: int) -> tuple[Any, float]:
    blocks = -(-len(neighbors) // BLOCK)
    words = np.empty(blocks * (BLOCK + 40) + 64, np.uint32)
    used = _encode_gaps(neighbors, rows, words)
    found, room = np.empty_like(neighbors), np.empty(BLOCK, np.uint32)

    def decode() -> AnyArray:
        _decode_gaps(words, rows, room, found)
        return found

    return decode, 32 * used / len(neighbors)


def elias_fano(offsets: AnyArray, neighbors: AnyArray, rows: int) -> tuple[Any, float]:
    bits = max(1, rows.bit_length())
    low = np.zeros(len(neighbors) * bits // 64 + 2, np.uint64)
    high = np.zeros((4 * len(neighbors) + 4 * len(offsets)) // 64 + 2, np.uint64)
    used = _encode_elias_fano(offsets, neighbors, rows, low, high)
    found = np.empty_like(neighbors)

    def decode() -> AnyArray:
        _decode_elias_fano(offsets, low, high, rows, found)
        return found

    return decode, used / len(neighbors)


def measure(program: Program, path: Path, repeats: int) -> None:
    """Measure all ways on a store's row orders."""
    graph = og.open(path)
    for order in graph.attributes["row_orders"]:
        offsets, neighbors = part_of(graph, order)
        copied = np.empty_like(neighbors)

        def raw(found: AnyArray = copied, given: AnyArray = neighbors) -> AnyArray:
            found[:] = given
            return found

        ways = {"raw": (raw, 32), "packed": packed(neighbors, graph.rows)}
        if order == HUB:
            ways["gaps"] = gaps(neighbors, graph.rows)
            ways["elias-fano"] = elias_fano(offsets, neighbors, graph.rows)
        for name, (decode, bits) in ways.items():
            speed = rates(decode, len(neighbors), "arcs", repeats)
            if not np.array_equal(decode(), neighbors):
                raise SystemExit(f"{name}: what was decoded differs")
            measured = {"arcs_measured": len(neighbors), "order": order, "way": name}
            keep(
                program,
                "neighbours",
                graph,
                measured | {"repeats": repeats},
                {"bits_per_arc": round(bits, 2), **speed},
            )
    if LIGHT in graph.attributes["row_orders"]:
        weights = graph.stored.read(f"{rows_path(0, 'out', LIGHT)}/weights")
        if weights.dtype.kind == "i" and len(weights):
            bits = (int(weights.max()) - int(weights.min())).bit_length()
            print(f"{path.stem:24} integer weights: {bits} of {8 * weights.dtype.itemsize} bits")


def keep(
    program: Program,
    what: str,
    graph: og.Graph,
    parameters: dict[str, Any],
    figures: dict[str, Any],
) -> None:
    of_graph = {"graph": graph.path.stem, "rows": graph.rows, "arcs": graph.arcs}
    program.flat_record(of_graph | parameters, figures, f"packing: {what}")


def spreads(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {"best_s": min(found), "median_s": statistics.median(found)}
        for name, found in times.items()
    }


def forget(graph: og.Graph) -> None:
    """Have the system forget what it holds of a store's files."""
    drop_from_cache(graph.path.rglob("*"))


def load_in_turn(
    program: Program, graphs: dict[str, og.Graph], order: str, cold: bool, repeats: int
) -> None:
    """Load all rows of each store after the other."""
    calls = {name: partial(graph.load, order) for name, graph in graphs.items()}

    def before(name: str) -> None:
        if cold:
            forget(graphs[name])

    take_turns(calls, 1, before=before)
    turns = take_turns(calls, repeats, before=before)
    parameters = {"order": order, "cold": cold, "repeats": repeats}
    figures = {"figures": spreads(turns.times_s), **load_average()}
    keep(program, "loading", graphs["plain"], parameters, figures)


def search_in_turn(
    program: Program,
    graphs: dict[str, og.Graph],
    kernel: str,
    rule: HeadRule,
    cold: bool,
    repeats: int,
) -> None:
    """Search with heads in memory, of each store after the other; answers must be the same."""
    device = CpuDevice(cores())
    tiers, loads = {}, {}
    for name, graph in graphs.items():
        plan = Plan(facts_of(graph, kernel), 0, rule, 16, 0)
        forget(graph)
        share = graph.head_share(first_rows(graph.rows))
        loads[name], _, tiers[name] = timed(partial(load_tiers, graph, plan, device, share))
    read: dict[str, Counter[str]] = {name: Counter() for name in graphs}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for root in range(0, 1000 * repeats, 1000):
        same = same_bytes(f"the answer from internal id {root} differs")
        for name, tier in tiers.items():
            tier.run(root)
            if cold:
                forget(graphs[name])
            before = tier.moved
            elapsed_s, _, tree = timed(partial(tier.run, root))
            times[name].append(elapsed_s)
            since = tier.moved.since(before)
            read[name].update(bytes=since.bytes, units=since.units)
            same(name, tree.parent)
    for tier in tiers.values():
        tier.close()
    device.close()
    parameters = {"kernel": kernel, "heads": str(rule), "cold": cold, "searches": repeats}
    figures = {"figures": spreads(times), "read": read, "cold_load_s": loads, **load_average()}
    keep(program, "searches", graphs["plain"], parameters, figures)


def beside(program: Program, plain: Path, packed: Path, repeats: int) -> None:
    """Compare two stores of one graph."""
    graphs = {"plain": og.open(plain), "compressed": og.open(packed)}
    sizes = {
        name: sum(entry.size for entry in graph.stored.manifest.files.values())
        for name, graph in graphs.items()
    }
    print("bytes of the stores:", sizes)
    for order in graphs["plain"].attributes["row_orders"]:
        for cold in (False, True):
            load_in_turn(program, graphs, order, cold, repeats)
    rules = {"bfs": HeadRule(12), "sssp": HeadRule(6, 5)}
    for order, kernel in ((HUB, "bfs"), (LIGHT, "sssp")):
        if order in graphs["plain"].attributes["row_orders"]:
            for cold in (False, True):
                search_in_turn(program, graphs, kernel, rules[kernel], cold, repeats)


def main() -> None:
    program = Program("packing", __doc__, repeats=7)
    program.add("stores", nargs="+", type=Path)
    program.add("--beside", action="store_true")
    options = program.parse()
    if options.beside:
        beside(program, *options.stores, options.repeats)
        return
    for path in options.stores:
        measure(program, path, options.repeats)


if __name__ == "__main__":
    main()
