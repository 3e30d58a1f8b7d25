"""Drawings of searches whose arcs stay in the store; as those of `figures`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.ticker import EngFormatter, MaxNLocator

from ooc_graph.report.data import SearchRecord
from ooc_graph.report.figures import Drawing, kernel_name
from ooc_graph.report.svg import INK, SHADE, axes_of_size, inline_svg, series_colour

_SIZE = (5.5, 2.9)


def waiting_per_search(kernel: str, searches: Sequence[SearchRecord]) -> Drawing | None:
    """Of each search in order the time, and how much of it was waiting for the store.

    Beside it stands a line for the time in which something was read. None if that is not known
    of all searches, or nothing was read.
    """
    waited = [s.waited_s for s in searches if s.waited_s is not None]
    reading = [s.reading_s for s in searches if s.reading_s is not None]
    if not len(waited) == len(reading) == len(searches) or not any(reading):
        return None
    times = [search.time_s for search in searches]
    rest = [max(time - wait, 0) for time, wait in zip(times, waited, strict=True)]
    numbers, name = range(1, len(searches) + 1), kernel_name(kernel)
    axes = axes_of_size(*_SIZE)
    axes.set(xlabel="search", ylabel="time")
    colour = series_colour(kernel)
    axes.bar(numbers, waited, color=colour, width=0.8, label="waiting for the store")
    axes.bar(numbers, rest, bottom=waited, color=SHADE, width=0.8, label="at work")
    axes.plot(
        numbers, reading, color=INK, linestyle="none", marker="_", markersize=5, label="reading"
    )
    axes.set_ylim(bottom=0, top=max(*times, *reading, *waited) * 1.3)
    axes.yaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, labelcolor=INK, loc="upper right", ncol=3, fontsize=8)
    short = EngFormatter(unit="s", places=2)
    caption = (
        f"Medians: {short(median(times))} a search, {short(median(waited))} of it waiting, "
        f"{short(median(reading))} of reading."
    )
    label = f"{name}: time of each search and how much of it was waiting. {caption}"
    svg = inline_svg(axes, name=f"{kernel}-waiting", label=label)
    return Drawing(f"{name}: waiting for the store", caption, svg)
