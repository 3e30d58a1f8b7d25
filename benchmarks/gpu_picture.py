"""Picture and tables of the GPU benchmark: speed by scale, and where the time of two searches goes.

    python benchmarks/gpu_picture.py [--records PATH] [--roads PATH] [--commit ID] [--scale 26]
                                     [--out PATH]

Takes the records of one commit of the sources: that of the newest record, or the one that is
named; of each kernel and scale the newest. On the left the harmonic mean, with bars from the first
to the third quartile and dots at the slowest and the best search. On the right the levels of a BFS
at one scale, of the search whose speed is the median and of the slowest. Prints tables in Markdown,
also of the road networks (gpu_roads.py) of the same commit, where there are any.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from gpu_model import Level
from harness.pictures import INK, KERNELS, ORANGE, SKY, end_label, picture, titled
from harness.program import RECORDS, Program
from harness.tables import RATES, markdown
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ooc_graph.report.records import read_records

PUSH, PULL = ORANGE, SKY
LEAST_NAMED = 0.035  # share of the axis from which on a level has room for its number
LEAST_TIMED = 0.085  # and for its time too


def chosen(records: Sequence[dict[str, Any]], commit: str | None) -> list[dict[str, Any]]:
    """The newest record of each kernel and scale, of one commit; what did not fit is left out."""
    whole = [r for r in records if not r.get("refused")]
    if not whole:
        raise SystemExit("no record to draw")
    wanted = commit or whole[-1]["source_commit"]
    newest = {(r["kernel"], r["scale"]): r for r in whole if r["source_commit"] == wanted}
    if not newest:
        raise SystemExit(f"no record of commit {wanted}")
    return [newest[key] for key in sorted(newest)]


def speeds_of(record: dict[str, Any]) -> list[float]:
    """TEPS of each search."""
    return [m / s for m, s in zip(record["edges"], record["times_s"], strict=True)]


def median_and_slowest(record: dict[str, Any]) -> dict[str, int]:
    """Numbers of the slowest search, and of the one of median speed (the lower of two)."""
    speed = speeds_of(record)
    order = sorted(range(len(speed)), key=speed.__getitem__)
    return {"slowest": order[0], "median": order[(len(order) - 1) // 2]}


def draw(records: Sequence[dict[str, Any]], scale: int, path: Path) -> None:
    traced = [r for r in records if r["scale"] == scale and r.get("levels")]
    widths = [1, 1.25] if traced else [1]
    with picture("gpu", path, (10.5 if traced else 5, 3.1)) as figure:
        axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        _speeds(axes[0], records)
        if traced:
            _levels(axes[1], traced[0])
        figure.suptitle(f"{records[0]['device']['name']}, Graph500's graphs", x=0.01, ha="left")


def _speeds(axis: Axes, records: Sequence[dict[str, Any]]) -> None:
    for kernel, colour in KERNELS.items():
        mine = [r for r in records if r["kernel"] == kernel]
        if not mine:
            continue
        # Kernels stand beside each other, so that their bars do not hide one another.
        at = [r["scale"] + (-0.06 if kernel == "bfs" else 0.06) for r in mine]
        names = ("harmonic_mean", "first_quartile", "third_quartile", "minimum", "maximum")
        mean, low, high, slowest, best = ([r["teps"][n] / 1e9 for r in mine] for n in names)
        axis.vlines(at, low, high, color=colour, linewidth=4, alpha=0.4)
        for ends in (slowest, best):
            axis.plot(at, ends, linestyle="none", marker=".", markersize=3, color=colour)
        axis.plot(at, mean, color=colour, marker="o", markersize=4, label=kernel.upper())
        end_label(axis, (at[-1], mean[-1]), f"{mean[-1]:,.0f}", colour)
    searches = {len(record["times_s"]) for record in records}
    count = f"{searches.pop()} searches" if len(searches) == 1 else "searches"
    title = f"harmonic mean, quartiles, slowest and best of {count}"
    titled(axis, title, "scale (edge factor 16)", "GTEPS (input tuples)", grid="y")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.09)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(frameon=False, loc="upper left")


def _levels(axis: Axes, record: dict[str, Any]) -> None:
    """Levels of two searches, one bar each, beginning on the left."""
    rows, speed = median_and_slowest(record), speeds_of(record)
    bars = {name: [Level(*one) for one in record["levels"][at]] for name, at in rows.items()}
    longest_us = max(sum(level.seconds for level in levels) for levels in bars.values()) * 1e6
    for place, levels in enumerate(bars.values()):
        _bar(axis, place, levels, longest_us)
    labels = [f"{name}\n{speed[at] / 1e9:,.0f} GTEPS" for name, at in rows.items()]
    axis.set_yticks(range(len(labels)), labels)
    title = f"levels of two BFS searches at scale {record['scale']}"
    titled(axis, title, "microseconds since the search began, by level", grid="x")
    handles = [mpl.patches.Patch(color=c, label=n) for n, c in (("push", PUSH), ("pull", PULL))]
    axis.legend(handles=handles, frameon=False, loc="upper right", ncols=2)
    axis.set_ylim(-0.6, 2.0)
    axis.set_xlim(0, longest_us * 1.02)


def _bar(axis: Axes, place: int, levels: Sequence[Level], longest_us: float) -> None:
    left = 0.0
    for number, level in enumerate(levels, 1):
        took_us = level.seconds * 1e6
        colour = PULL if level.pull else PUSH
        axis.barh(place, took_us, left=left, height=0.7, color=colour, edgecolor="white")
        if took_us >= LEAST_NAMED * longest_us:
            text = f"{number}\n{took_us:,.0f}" if took_us >= LEAST_TIMED * longest_us else number
            axis.annotate(
                str(text), (left + took_us / 2, place), ha="center", va="center", fontsize=7,
                color=INK,
            )  # fmt: skip
        left += took_us


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
    program = Program("gpu", __doc__, out=RECORDS / "gpu.svg")
    program.add("--roads", type=Path, default=RECORDS / "gpu_roads.jsonl")
    program.add("--scale", type=int, default=26, help="whose levels are shown")
    options = program.parse()
    records = chosen(list(read_records(options.records)), options.commit)
    draw(records, options.scale, options.out)
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
