"""The drawings of searches: by level or phase, and one by one; as those of figures.py."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from ooc_graph.report.data import SearchRecord
from ooc_graph.report.figures import INK, SHADE, Drawing, axes_of_size, inline_svg, series_colour
from ooc_graph.report.graph500 import statistics_of

_HALF = (5.5, 2.9)
_MANY_LEVELS = 40
_FEWEST_SEARCHES = 2


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
    _finish(axes, EngFormatter(sep=""))
    name = kernel.upper()
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
    step, name = _step_name(kernel), kernel.upper()
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


def waiting_per_search(kernel: str, searches: Sequence[SearchRecord]) -> Drawing | None:
    """Time of each search in order, with its waiting, and of reading; None if not known of all."""
    waited = [s.waited_s for s in searches if s.waited_s is not None]
    reading = [s.reading_s for s in searches if s.reading_s is not None]
    if not len(waited) == len(reading) == len(searches) or not any(reading):
        return None
    times = [search.time_s for search in searches]
    rest = [max(time - wait, 0) for time, wait in zip(times, waited, strict=True)]
    numbers, name = range(1, len(searches) + 1), kernel.upper()
    axes = axes_of_size(*_HALF)
    axes.set(xlabel="search", ylabel="time")
    colour = series_colour(kernel)
    axes.bar(numbers, waited, color=colour, width=0.8, label="waiting for the store")
    axes.bar(numbers, rest, bottom=waited, color=SHADE, width=0.8, label="at work")
    axes.plot(
        numbers, reading, color=INK, linestyle="none", marker="_", markersize=5, label="reading"
    )
    axes.set_ylim(bottom=0, top=max(*times, *reading, *waited) * 1.3)
    _finish(axes, EngFormatter(unit="s"), columns=3)
    short = EngFormatter(unit="s", places=2)
    caption = (
        f"Medians: {short(median(times))} a search, {short(median(waited))} of it waiting, "
        f"{short(median(reading))} of reading."
    )
    label = f"{name}: time of each search and how much of it was waiting. {caption}"
    svg = inline_svg(axes, name=f"{kernel}-waiting", label=label)
    return Drawing(f"{name}: waiting for the store", caption, svg)


def quantity_per_search(
    kernel: str, found: Sequence[float | None], quantity: str, unit: str
) -> Drawing | None:
    """A quantity of each search in order, with quartiles; None if one is not known, or too few."""
    values = [value for value in found if value is not None]
    if len(values) < max(_FEWEST_SEARCHES, len(found)):
        return None
    figures = statistics_of(values)
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
    _finish(axes, EngFormatter(unit=unit))
    short = EngFormatter(unit=unit, places=2)
    quartiles = f"{short(low)}, {short(figures.median)}, {short(high)}"
    name = kernel.upper()
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


def _finish(axes: Axes, form: EngFormatter, columns: int = 1) -> None:
    """Number searches or levels by integers, and give measures and a legend."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(form)
    axes.legend(frameon=False, labelcolor=INK, loc="upper right", ncol=columns, fontsize=8)
