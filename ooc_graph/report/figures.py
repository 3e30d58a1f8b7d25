"""The drawings of the report page; each returns None if its data are absent.

They are made inside :func:`ooc_graph.report.svg.drawing_style`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from ooc_graph.report.data import DegreeHistogram, ReportData, SearchRecord, Stage
from ooc_graph.report.memory_watch import thinned
from ooc_graph.report.statistics import statistics_of
from ooc_graph.report.svg import (
    GRID,
    INK,
    LIMIT,
    OTHER,
    SHADE,
    axes_of_size,
    inline_svg,
    series_colour,
)

_HALF = (5.5, 2.9)
_FULL = (10.4, 3.2)
_MANY_LEVELS = 40
_FEWEST_SEARCHES = 2
_CELLS_PER_DECADE = 150
_MEGABYTE = 1e6
_LIMIT_IN_VIEW = 4


@dataclass(frozen=True)
class Drawing:
    """Inline SVG with its heading and caption; ``wide`` ones take the page's full width."""

    heading: str
    caption: str
    svg: str
    wide: bool = False


def kernel_name(kernel: str) -> str:
    """Name of a kernel as shown."""
    return kernel.upper()


def degree_distribution(histogram: DegreeHistogram | None) -> Drawing | None:
    """Vertices per degree on logarithmic axes, one dot per degree."""
    if histogram is None or not any(histogram.degree):
        return None
    counts = sorted(zip(histogram.degree, histogram.count, strict=True))
    isolated = sum(count for degree, count in counts if degree == 0)
    shown = _distinct_dots([pair for pair in counts if pair[0] > 0 and pair[1] > 0])
    axes = axes_of_size(*_FULL)
    axes.set(xscale="log", yscale="log", xlabel="degree", ylabel="vertices")
    axes.plot(*zip(*shown, strict=True), linestyle="none", marker=".", markersize=3, color=OTHER)
    _count_axis(axes)
    label = f"Degree distribution: degrees up to {counts[-1][0]:,}, log-log."
    caption = f"Vertices of each degree, largest {counts[-1][0]:,}."
    if isolated:
        caption += f" {isolated:,} isolated vertices are not shown."
    svg = inline_svg(axes, name="degrees", label=label)
    return Drawing("Degree distribution", caption, svg, True)


def vertices_per_level(kernel: str, searches: Sequence[SearchRecord]) -> Drawing | None:
    """Frontier size per level: median over the searches, and the range; None if not known."""
    rows = [[level.vertices for level in s.levels if level.vertices is not None] for s in searches]
    levels = _per_level(rows)
    if not levels or any(len(row) != len(s.levels) for row, s in zip(rows, searches, strict=True)):
        return None
    step = _step_name(kernel)
    axes = axes_of_size(*_HALF)
    axes.set(yscale="log", xlabel=step, ylabel="vertices")
    x, marker = range(len(levels)), "o" if len(levels) <= _MANY_LEVELS else None
    low, high = [max(min(v), 0.5) for v in levels], [max(v) for v in levels]
    axes.fill_between(
        x, low, high, color=series_colour(kernel), alpha=0.22, linewidth=0, label="range"
    )
    middle = [median(v) for v in levels]
    axes.plot(x, middle, color=series_colour(kernel), marker=marker, markersize=4, label="median")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    _legend(axes)
    name = kernel_name(kernel)
    label = f"{name}: vertices per {step}, {len(levels)} in all, median at most {max(middle):,.0f}."
    caption = f"Over the searches that have the {step}; line: median, band: smallest to largest."
    svg = inline_svg(axes, name=f"{kernel}-vertices", label=label)
    return Drawing(f"{name}: vertices per {step}", caption, svg)


def arcs_per_level(
    kernel: str, searches: Sequence[SearchRecord], graph_arcs: int | None
) -> Drawing | None:
    """Arcs examined per level, as a share of the graph's if that is known."""
    whole = graph_arcs or 1
    levels = _per_level([[level.arcs / whole for level in s.levels] for s in searches])
    if not levels:
        return None
    step, name = _step_name(kernel), kernel_name(kernel)
    axes = axes_of_size(*_HALF)
    axes.set(xlabel=step, ylabel="share of all arcs" if graph_arcs else "arcs examined")
    phases = _phase_names(searches)
    _arc_bars(axes, kernel, levels, frozenset() if phases else _pulled_levels(searches))
    axes.yaxis.set_major_formatter(PercentFormatter(1) if graph_arcs else EngFormatter(sep=""))
    if phases:
        axes.set_xticks(range(len(phases)), phases)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    total = median(sum(level.arcs for level in s.levels) / whole for s in searches if s.levels)
    amount = f"{total:.1%} of all arcs" if graph_arcs else f"{total:,.0f} arcs"
    svg = inline_svg(axes, name=f"{kernel}-arcs", label=f"{name}: arcs examined per {step}.")
    spread = ", whiskers: range" if len(levels) <= _MANY_LEVELS else ""
    caption = f"Median over the searches{spread}. A median search examines {amount}."
    return Drawing(f"{name}: arcs examined per {step}", caption, svg)


def time_per_search(kernel: str, searches: Sequence[SearchRecord]) -> Drawing | None:
    """Wall time of each search in order, with quartiles."""
    if len(searches) < _FEWEST_SEARCHES:
        return None
    times_s = [search.time_s for search in searches]
    return _per_search(kernel, times_s, "time", "s")


def teps_per_search(kernel: str, searches: Sequence[SearchRecord]) -> Drawing | None:
    """Traversed edges per second of each search in order, with quartiles."""
    teps = [search.teps for search in searches]
    known = [value for value in teps if value is not None]
    if len(known) < _FEWEST_SEARCHES or len(known) != len(teps):
        return None
    return _per_search(kernel, known, "TEPS", "")


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
    axes = axes_of_size(*_HALF)
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
    _legend(axes, columns=3)
    short = EngFormatter(unit="s", places=2)
    caption = (
        f"Medians: {short(median(times))} a search, {short(median(waited))} of it waiting, "
        f"{short(median(reading))} of reading."
    )
    label = f"{name}: time of each search and how much of it was waiting. {caption}"
    svg = inline_svg(axes, name=f"{kernel}-waiting", label=label)
    return Drawing(f"{name}: waiting for the store", caption, svg)


def time_per_stage(stages: Sequence[Stage]) -> Drawing | None:
    """Duration of each stage as horizontal bars, in the order they ran."""
    if not stages:
        return None
    names = [stage.name for stage in stages]
    durations_s = [stage.duration_s for stage in stages]
    axes = axes_of_size(_FULL[0], 0.7 + 0.3 * len(stages))
    bars = axes.barh(range(len(stages)), durations_s, height=0.62, color=OTHER)
    axes.bar_label(bars, [_seconds(value) for value in durations_s], padding=4, color=INK)
    axes.set_yticks(range(len(stages)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.1)
    axes.set_xlabel("seconds")
    total_s = sum(durations_s)
    longest = max(stages, key=lambda stage: stage.duration_s)
    label = "Time per stage: " + ", ".join(
        f"{stage.name} {_seconds(stage.duration_s)}" for stage in stages
    )
    caption = f"{_seconds(total_s)} in all; longest: {longest.name}."
    return Drawing("Time per stage", caption, inline_svg(axes, name="stages", label=label), True)


def memory_over_time(data: ReportData) -> Drawing | None:
    """Memory of all processes over time, with the limit and the stages."""
    if not data.memory:
        return None
    samples = thinned(data.memory, 800)
    axes = axes_of_size(*_FULL)
    axes.set(xlabel="seconds since the start", ylabel="memory (MB)")
    sizes = [sample.bytes / _MEGABYTE for sample in samples]
    axes.plot([s.time_s for s in samples], sizes, color=OTHER, linewidth=1.4, label="all processes")
    peak = max(sizes)
    _memory_lines(axes, data, peak)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.12)
    axes.margins(x=0)
    _shade_stages(axes, data.stages)
    axes.legend(
        frameon=False, labelcolor=INK, loc="lower right", bbox_to_anchor=(1, 1), ncol=3, fontsize=8
    )
    label = f"Memory of all processes over time, peak {peak:,.0f} MB."
    caption = f"Peak {peak:,.0f} MB; shaded: every second stage."
    limit = _memory_limit(data)
    if limit is not None:
        caption += " The limit applies to what is above the idle processes."
        if not _is_in_view(limit, peak):
            caption += f" Idle + limit, {limit:,.0f} MB, lies beyond the drawing."
    return Drawing("Memory over time", caption, inline_svg(axes, name="memory", label=label), True)


def _per_search(kernel: str, values: Sequence[float], quantity: str, unit: str) -> Drawing:
    figures, form = statistics_of(values), EngFormatter(unit=unit, places=None)
    axes = axes_of_size(*_HALF)
    axes.set(xlabel="search", ylabel=quantity)
    low, high = figures.first_quartile, figures.third_quartile
    axes.axhspan(
        low, high, color=series_colour(kernel), alpha=0.18, linewidth=0, label="quartiles 1 to 3"
    )
    axes.axhline(figures.median, color=INK, linewidth=1, linestyle="--", label="median")
    numbers = range(1, len(values) + 1)
    axes.plot(
        numbers, values, linestyle="none", marker="o", markersize=3.5, color=series_colour(kernel)
    )
    axes.set_ylim(bottom=0, top=figures.maximum * 1.25)
    axes.yaxis.set_major_formatter(form)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes)
    short = EngFormatter(unit=unit, places=2)
    quartiles = f"{short(low)}, {short(figures.median)}, {short(high)}"
    name = kernel_name(kernel)
    caption = f"Quartiles {quartiles}; range {short(figures.minimum)} to {short(figures.maximum)}."
    svg = inline_svg(
        axes, name=f"{kernel}-{quantity.lower()}", label=f"{name}: {quantity} per search. {caption}"
    )
    return Drawing(f"{name}: {quantity} per search", caption, svg)


def _arc_bars(
    axes: Axes, kernel: str, levels: Sequence[Sequence[float]], pulled: frozenset[int]
) -> None:
    middle = [median(values) for values in levels]
    colour = series_colour(kernel)
    if len(levels) > _MANY_LEVELS:
        axes.fill_between(range(len(levels)), middle, step="mid", color=colour, linewidth=0)
        return
    around = [
        [m - min(v) for m, v in zip(middle, levels, strict=True)],
        [max(v) - m for m, v in zip(middle, levels, strict=True)],
    ]
    bars = axes.bar(range(len(levels)), middle, color=colour, edgecolor=colour, linewidth=1)
    for number, bar in enumerate(bars):
        if number in pulled:
            bar.set(facecolor="none", hatch="////")
            bar.set_label("_" if number > min(pulled) else "pull")
    if pulled and (pushed := [bar for n, bar in enumerate(bars) if n not in pulled]):
        pushed[0].set_label("push")
    axes.errorbar(range(len(levels)), middle, around, fmt="none", ecolor=INK, elinewidth=0.9)
    if pulled:
        handles = [bar for bar in bars if not str(bar.get_label()).startswith("_")]
        axes.legend(handles=handles, frameon=False, labelcolor=INK)


def _memory_limit(data: ReportData) -> float | None:
    """Limit on the memory of all processes, in MB."""
    if data.memory_limit_bytes is None:
        return None
    return ((data.memory_baseline_bytes or 0) + data.memory_limit_bytes) / _MEGABYTE


def _is_in_view(limit: float, peak: float) -> bool:
    """Tell whether the limit can be drawn without pressing the curve flat."""
    return limit <= _LIMIT_IN_VIEW * peak


def _memory_lines(axes: Axes, data: ReportData, peak: float) -> None:
    base, limit = data.memory_baseline_bytes, _memory_limit(data)
    if base is not None:
        axes.axhline(base / _MEGABYTE, color=INK, linewidth=1, linestyle=":", label="idle")
    if limit is not None and _is_in_view(limit, peak):
        text = "idle + limit" if base is not None else "limit"
        axes.axhline(limit, color=LIMIT, linewidth=1.4, linestyle="--", label=text)


def _shade_stages(axes: Axes, stages: Sequence[Stage]) -> None:
    left, right = axes.get_xlim()
    for number, stage in enumerate(stages):
        if number % 2 == 0:
            axes.axvspan(stage.start_s, stage.stop_s, color=SHADE, alpha=0.5, linewidth=0, zorder=0)
        else:
            axes.axvline(stage.start_s, color=GRID, linewidth=0.6)
        # Names that would not fit are left out; the stages' own drawing has them all.
        if stage.duration_s >= 0.011 * len(stage.name) * (right - left):
            middle = (stage.start_s + stage.stop_s) / 2
            where = axes.get_xaxis_transform()
            axes.text(middle, 0.985, stage.name, transform=where, ha="center", va="top", color=INK)


def _distinct_dots(counts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop dots that would cover one another: one is kept in each cell of a log-log grid."""
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for degree, count in counts:
        cells.setdefault((_log_cell(degree), _log_cell(count)), (degree, count))
    return list(cells.values())


def _log_cell(value: int) -> int:
    return int(_CELLS_PER_DECADE * math.log10(value))


def _per_level(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Values of each level over the searches that have it."""
    depth = max(map(len, rows), default=0)
    return [[row[level] for row in rows if level < len(row)] for level in range(depth)]


def _pulled_levels(searches: Sequence[SearchRecord]) -> frozenset[int]:
    """Levels that most of the searches having them went through by pulling."""
    pulls = _per_level([[level.direction == "pull" for level in s.levels] for s in searches])
    return frozenset(n for n, pulled in enumerate(pulls) if 2 * sum(pulled) > len(pulled))


def _phase_names(searches: Sequence[SearchRecord]) -> list[str]:
    """Names of the phases, if the searches went through phases of one order, not levels."""
    orders = {tuple(level.direction for level in s.levels) for s in searches if s.levels}
    phased = all(level.vertices is None for search in searches for level in search.levels)
    return list(orders.pop()) if phased and len(orders) == 1 else []


def _step_name(kernel: str) -> str:
    return "level" if kernel == "bfs" else "phase"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def _count_axis(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(lambda *_: "")


def _legend(axes: Axes, columns: int = 1) -> None:
    axes.legend(frameon=False, labelcolor=INK, loc="upper right", ncol=columns, fontsize=8)
