"""Table and picture of searches within budgets of device memory.

    python benchmarks/gpu_tiers_picture.py [--records PATH] [--resident PATH] [--out PATH]

Takes the newest record of gpu_tiers.py of each kernel, scale and budget. The table has all of them.
The picture has the scales that were searched within several budgets: the harmonic mean, and from
the slowest search to the best, by the share of the arcs that is on the device; and a ring for the
newest record of gpu.py, by kernels that have all rows on the device.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.pictures import GRID, INK, KERNELS, picture, plain_numbers
from harness.program import RECORDS, Program, newest
from harness.tables import RATES, markdown
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ooc_graph.report.records import read_records

HEAD = (
    *("kernel", "scale", "rows, GB", "budget, GiB", "measured peak, GB", "arcs on the device"),
    *("GTEPS: harmonic mean", "slowest", "first quartile", "median", "third quartile", "best"),
)


def share(record: dict[str, Any]) -> float:
    return float(record["plan"]["share of arcs on the device"])


def row_of(record: dict[str, Any]) -> tuple[object, ...]:
    return (
        *(record["kernel"].upper(), record["scale"]),
        f"{record['plan']['bytes of pinned host memory'] / 1e9:.1f}",
        f"{record['budget_bytes'] / (1 << 30):g}",
        f"{record['peak_bytes'] / 1e9:.2f}",
        f"{100 * share(record):.1f} %",
        *(f"{record['teps'][name] / 1e9:,.0f}" for name in RATES),
    )


def draw(
    figure: Figure,
    records: Sequence[dict[str, Any]],
    resident: dict[tuple[str, int], dict[str, Any]],
) -> None:
    axis = figure.subplots()
    for (kernel, scale), group in groupby(records, lambda r: (r["kernel"], r["scale"])):
        found = list(group)
        if len(found) > 2:
            _line(axis, kernel, scale, found)
            if (kernel, scale) in resident:
                rate = resident[kernel, scale]["teps"]["harmonic_mean"] / 1e9
                ring = {"color": KERNELS[kernel], "markerfacecolor": "white"}
                axis.plot([100], [rate], marker="o", markersize=6, **ring)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("arcs on the device, per cent of all", color=INK)
    axis.set_ylabel("GTEPS (input tuples)", color=INK)
    for ticks in (axis.xaxis, axis.yaxis):
        plain_numbers(ticks)
    axis.set_xticks([2, 5, 10, 20, 50, 100])
    axis.set_yticks([10, 20, 50, 100, 200, 500, 1000, 2000])
    axis.grid(color=GRID, linewidth=0.6)
    if axis.lines:
        axis.legend(frameon=False, loc="lower right")
    name = records[0]["device"]["name"]
    axis.set_title(f"{name}: harmonic mean; slowest to best; ring: no budget", loc="left")


def _line(axis: Axes, kernel: str, scale: int, records: Sequence[dict[str, Any]]) -> None:
    ordered = sorted(records, key=share)
    at = [100 * share(r) for r in ordered]
    mean, low, high = (
        [r["teps"][name] / 1e9 for r in ordered] for name in ("harmonic_mean", "minimum", "maximum")
    )
    axis.fill_between(at, low, high, color=KERNELS[kernel], alpha=0.15, linewidth=0)
    label = f"{kernel.upper()}, scale {scale}"
    axis.plot(at, mean, color=KERNELS[kernel], marker="o", markersize=4, label=label)


def main() -> None:
    program = Program("gpu_tiers", __doc__, out=RECORDS / "gpu_tiers.svg")
    program.add("--resident", type=Path, default=RECORDS / "gpu.jsonl")
    options = program.parse()
    records = newest(
        options.records,
        lambda r: (r["kernel"], r["scale"], r["budget_bytes"]),
        lambda r: r["benchmark"] == "gpu_tiers",
    )
    # Of gpu.py: all rows on the device.
    whole = {
        (r["kernel"], r["scale"]): r
        for r in read_records(options.resident)
        if r["benchmark"] == "gpu" and "teps" in r
    }
    print(markdown(HEAD, map(row_of, records)), end="")
    with picture("gpu tiers", options.out, (5.6, 3.4)) as figure:
        draw(figure, records, whole)


if __name__ == "__main__":
    main()
