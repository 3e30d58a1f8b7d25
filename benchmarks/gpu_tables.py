"""Tables of the GPU benchmarks in Markdown, from their records.

    python benchmarks/gpu_tables.py [--records PATH] [--roads PATH] [--commit ID] [--scale 26]

Takes the same records as gpu_picture.py: of one commit of the sources, of each kernel and scale the
newest; of the road networks (gpu_roads.py) those of the same commit, where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_model import Level
from gpu_picture import chosen, median_and_slowest
from harness.program import RECORDS, Program
from harness.tables import RATES, markdown

from ooc_graph.report.records import read_records


def giga(value: float) -> str:
    return f"{value / 1e9:,.0f}"


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def speeds(records: Sequence[dict[str, Any]]) -> str:
    head = ("kernel", "scale", "harmonic mean", "slowest", "first quartile", "median")
    more = ("third quartile", "best", "unique edges", "internal ids", "original order")
    kinds = ("unique_teps", "internal_teps", "original_order_teps")
    rows = []
    for r in records:
        teps = [r["teps"][name] for name in RATES] + [r[kind]["harmonic_mean"] for kind in kinds]
        rows.append((r["kernel"].upper(), r["scale"], *map(giga, teps), f"{r['kernel1_s']:.2f}"))
    return markdown((*head, *more, "kernel 1, s"), rows)


def ceilings(records: Sequence[dict[str, Any]]) -> str:
    head = ("kernel", "scale", "arcs looked at", "bytes, GB", "copy, GB/s", "share")
    rows = [
        (
            *(r["kernel"].upper(), r["scale"], percent(r["arcs_share"])),
            *(f"{r['modelled_bytes'] / 1e9:.2f}", giga(r["copy_bytes_per_s"])),
            *(percent(r["share_of_copy"]), f"{r['modelled_lookups'] / 1e6:,.0f}"),
            *(giga(r["lookups_per_s"]), percent(r["share_of_lookup"])),
        )
        for r in records
    ]
    return markdown((*head, "look-ups, M", "look-ups, G/s", "share"), rows)


def energies(records: Sequence[dict[str, Any]]) -> str:
    rows = []
    for r in records:
        if found := r.get("energy"):
            watts, per_watt = found["watts"], found["mteps_per_watt"]
            power = "-" if watts is None else f"{watts:,.0f}"
            rate = found["reason"] if per_watt is None else f"{per_watt:,.0f}"
            figures = found["searches"], f"{found['seconds']:.1f}", power, rate
            rows.append((r["kernel"].upper(), r["scale"], *figures))
    return markdown(("kernel", "scale", "searches", "seconds", "watts", "MTEPS/W"), rows)


def levels(record: dict[str, Any]) -> str:
    rows = []
    for name, at in median_and_slowest(record).items():
        for number, one in enumerate(record["levels"][at], 1):
            level = Level(*one)
            way, arcs = ("pull", level.examined) if level.pull else ("push", level.pushed)
            took = f"{level.seconds * 1e6:,.0f}"
            rows.append((name, number, way, f"{level.found:,}", f"{arcs:,}", took))
    return markdown(("search", "level", "direction", "vertices found", "arcs", "µs"), rows)


def roads(records: Sequence[dict[str, Any]]) -> str:
    cpus = list(records[0]["gpu_is_faster_by"])
    rows = [
        (
            *(r["graph"], r["kernel"].upper(), f"{r['rows']:,}", r["weights"] or "-"),
            f"{r['median_s']['GPU'] * 1e3:.2f}",
            *(f"{r['median_s'][cpu] * 1e3:.2f} ({r['gpu_is_faster_by'][cpu]:.2f})" for cpu in cpus),
        )
        for r in records
    ]
    head = ("network", "kernel", "vertices", "weights", "GPU, ms")
    return markdown((*head, *(f"{cpu}, ms (GPU faster by)" for cpu in cpus)), rows)


def main() -> None:
    program = Program("gpu", __doc__)
    program.add("--roads", type=Path, default=RECORDS / "gpu_roads.jsonl")
    program.add("--scale", type=int, default=26, help="whose levels are listed")
    options = program.parse()
    records = chosen(list(read_records(options.records)), options.commit)
    print(speeds(records))
    print(ceilings(records))
    print(energies(records))
    for record in records:
        if record["scale"] == options.scale and record.get("levels"):
            print(levels(record))
    found = read_records(options.roads) if options.roads.exists() else []
    commit = records[0]["source_commit"]
    newest = {(r["graph"], r["kernel"]): r for r in found if r["source_commit"] == commit}
    if newest:
        print(roads(list(newest.values())))


if __name__ == "__main__":
    main()
