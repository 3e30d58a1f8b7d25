"""Picture of searches with most arcs in the store: speed and bytes read by the share in memory.

    python benchmarks/tiers_picture.py [--records PATH] [--scale 22] [--out PATH]

Draws the records of one scale again, of each kernel and share the newest. On the left the harmonic
mean TEPS, and as a dashed line that of the searches in memory that were measured in turn with them:
machines drift, so only the two lines of a kernel should be compared. On the right the bytes that a
search read, as a share of all bytes of the arcs; GridGraph reads all of them once a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from harness.pictures import INK, KERNELS, drawing, end_label, plain, plain_numbers, save
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
    return {kernel: list(group) for kernel, group in groupby(found, kernel_of)}


def kernel_of(record: dict[str, Any]) -> str:
    return str(record["parameters"]["kernel"])


def draw(found: dict[str, list[dict[str, Any]]], scale: int) -> Figure:
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    speed, read = figure.subplots(1, 2)
    for kernel, records in found.items():
        _speeds(speed, kernel, records)
        _bytes(read, kernel, records)
    for axis in (speed, read):
        _shares(axis)
    speed.set_title("harmonic mean; dashed: in memory, measured in turn", loc="left")
    speed.set_ylabel("GTEPS (input tuples)", color=INK)
    speed.set_yscale("log")
    speed.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_numbers(speed.yaxis)
    read.set_title("read by a search, as a share of all arcs' bytes", loc="left")
    read.set_ylabel("per cent", color=INK)
    read.set_yscale("symlog", linthresh=1)
    plain_numbers(read.yaxis)
    read.set_ylim(0, 200)
    speed.legend(frameon=False, loc="lower left")
    figure.suptitle(_title(found, scale), x=0.01, ha="left")
    return figure


def _title(found: dict[str, list[dict[str, Any]]], scale: int) -> str:
    host = next(iter(found.values()))[0]["host"]
    return f"Graph500's graph of scale {scale}, {host['cpu_usable']} cores, page cache warm"


def _resident(records: Sequence[dict[str, Any]]) -> list[float]:
    return [record["figures"]["resident_share"] for record in records]


def _speeds(axis: Axes, kernel: str, records: Sequence[dict[str, Any]]) -> None:
    colour, at = KERNELS[kernel], _resident(records)
    tier, memory = (
        [record["figures"]["harmonic_teps"][who] / 1e9 for record in records]
        for who in ("tier", "memory")
    )
    axis.plot(at, memory, color=colour, linestyle="--", linewidth=1)
    axis.plot(at, tier, color=colour, marker="o", markersize=4, label=kernel.upper())
    end_label(axis, (at[-1], tier[-1]), f"{tier[-1]:.2g}", colour)


def _bytes(axis: Axes, kernel: str, records: Sequence[dict[str, Any]]) -> None:
    colour, at = KERNELS[kernel], _resident(records)
    share = [
        100 * float(np.mean(r["figures"]["read_bytes"])) / r["figures"]["arc_bytes"]
        for r in records
    ]
    axis.plot(at, share, color=colour, marker="o", markersize=4)
    axis.annotate(
        f"{kernel.upper()} {share[-1]:.2g} %", (at[-1], share[-1]), (-4, 6), ha="right",
        textcoords="offset points", color=colour,
    )  # fmt: skip


def _shares(axis: Axes) -> None:
    """Shares of the arcs in memory along the axis, all of them on the left."""
    axis.set_xscale("log")
    axis.set_xlim(1.15, 0.04)
    axis.set_xticks(TICKS, [f"{100 * share:g} %" for share in TICKS])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("arcs in memory", color=INK)
    plain(axis, grid="y")


def main() -> None:
    program = Program("tiers", __doc__, scale=22, out=RECORDS / "tiers.svg")
    options = program.parse()
    with drawing("tiers"):
        save(draw(chosen(options.records, options.scale), options.scale), options.out)


if __name__ == "__main__":
    main()
