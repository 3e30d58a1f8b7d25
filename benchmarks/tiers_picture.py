"""Picture of searches with most arcs in the store: speed and bytes read by the share in memory.

    python benchmarks/tiers_picture.py [--records PATH] [--scale 22] [--out PATH]

Draws the records of one scale again, of each kernel and share the newest. On the left the harmonic
mean TEPS, and as a dashed line that of the searches in memory that were measured in turn with them:
machines drift, so only the two lines of a kernel should be compared. On the right the bytes that a
search read, as a share of all bytes of the arcs; GridGraph reads all of them once a level.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from harness.pictures import KERNELS, end_label, picture, plain_numbers, titled
from harness.program import RECORDS, Program, newest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

TICKS = (1, 0.5, 0.25, 0.12, 0.06)


def chosen(path: Path, scale: int) -> dict[str, list[dict[str, Any]]]:
    """The newest record of each kernel and share at a scale, by kernel, largest share first."""
    found = newest(
        path,
        lambda r: (r["parameters"]["kernel"], -r["figures"]["share"]),
        lambda r: r["benchmark"] == "tiers" and r["parameters"]["scale"] == scale,
    )
    by_kernel = groupby(found, lambda record: record["parameters"]["kernel"])
    return {kernel: list(group) for kernel, group in by_kernel}


def draw(figure: Figure, found: dict[str, list[dict[str, Any]]], scale: int) -> None:
    speed, read = figure.subplots(1, 2)
    for kernel, records in found.items():
        colour, at = KERNELS[kernel], [one["figures"]["resident_share"] for one in records]
        _speeds(speed, kernel, colour, at, records)
        _bytes(read, kernel, colour, at, records)
    texts = "harmonic mean; dashed: in memory, measured in turn", "GTEPS (input tuples)"
    _shares(speed, *texts)
    speed.set_yscale("log")
    speed.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_numbers(speed.yaxis)
    _shares(read, "read by a search, as a share of all arcs' bytes", "per cent")
    read.set_yscale("symlog", linthresh=1)
    plain_numbers(read.yaxis)
    read.set_ylim(0, 200)
    speed.legend(frameon=False, loc="lower left")
    cores = next(iter(found.values()))[0]["host"]["cpu_usable"]
    title = f"Graph500's graph of scale {scale}, {cores} cores, page cache warm"
    figure.suptitle(title, x=0.01, ha="left")


def _speeds(
    axis: Axes, kernel: str, colour: str, at: Sequence[float], records: Sequence[dict[str, Any]]
) -> None:
    tier, memory = (
        [record["figures"]["harmonic_teps"][who] / 1e9 for record in records]
        for who in ("tier", "memory")
    )
    axis.plot(at, memory, color=colour, linestyle="--", linewidth=1)
    axis.plot(at, tier, color=colour, marker="o", markersize=4, label=kernel.upper())
    end_label(axis, (at[-1], tier[-1]), f"{tier[-1]:.2g}", colour)


def _bytes(
    axis: Axes, kernel: str, colour: str, at: Sequence[float], records: Sequence[dict[str, Any]]
) -> None:
    found = [record["figures"] for record in records]
    share = [100 * float(np.mean(one["read_bytes"])) / one["arc_bytes"] for one in found]
    axis.plot(at, share, color=colour, marker="o", markersize=4)
    axis.annotate(
        f"{kernel.upper()} {share[-1]:.2g} %", (at[-1], share[-1]), (-4, 6), ha="right",
        textcoords="offset points", color=colour,
    )  # fmt: skip


def _shares(axis: Axes, title: str, y: str) -> None:
    """Shares of the arcs in memory along the axis, all of them on the left."""
    axis.set_xscale("log")
    axis.set_xlim(1.15, 0.04)
    axis.set_xticks(TICKS, [f"{100 * share:g} %" for share in TICKS])
    axis.xaxis.set_minor_locator(NullLocator())
    titled(axis, title, "arcs in memory", y, grid="y")


def main() -> None:
    program = Program("tiers", __doc__, scale=22, out=RECORDS / "tiers.svg")
    options = program.parse()
    with picture("tiers", options.out, (8.6, 3.1)) as figure:
        draw(figure, chosen(options.records, options.scale), options.scale)


if __name__ == "__main__":
    main()
