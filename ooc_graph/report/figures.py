"""The drawings of the report page; each returns None if its data are absent.

They are made inside `drawing_style`, as inline SVG whose colours are the page's CSS variables: they
are drawn in placeholder colours, which are then replaced by ``var(--name)``. The same drawing is
legible in a light and in a dark page. pyplot is not used, so no global figure state is touched.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from ooc_graph.report.data import DegreeHistogram, ReportData, Stage
from ooc_graph.report.graph500 import in_seconds
from ooc_graph.report.memory_watch import thinned

# Placeholder -> CSS variable. Values are arbitrary, only distinct and used by nothing else.
INK = "#010203"
GRID = "#010204"
SERIES = {"bfs": "#010205", "sssp": "#010206"}
OTHER = "#010207"
LIMIT = "#010208"
SHADE = "#010209"

_VARIABLES = {
    INK: "--ink",
    GRID: "--grid",
    SERIES["bfs"]: "--bfs",
    SERIES["sssp"]: "--sssp",
    OTHER: "--other",
    LIMIT: "--limit",
    SHADE: "--shade",
}
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ooc_graph",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "hatch.linewidth": 0.8,
    # Names of stages are text, even with a dollar sign in them.
    "text.parse_math": False,
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Matplotlib's settings for the page while the block runs; the user's own come back after.

    Figures are made and turned into SVG inside it, so that they do not depend on a matplotlibrc.
    The settings are global to the process, so two threads may not draw at once.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def series_colour(kernel: str) -> str:
    """Placeholder of a kernel's colour."""
    return SERIES.get(kernel, OTHER)


def axes_of_size(width_in: float, height_in: float) -> Axes:
    """Axes in a new transparent figure; call inside :func:`drawing_style`."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.tick_params(which="both", color=GRID, labelcolor=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def inline_svg(axes: Axes, *, name: str, label: str) -> str:
    """Markup of a figure; ``name`` is unique in the page, and ``label`` says what it shows."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=_NO_METADATA)
    return _embedded(text.getvalue(), name=re.sub(r"\W", "-", name), label=label)


def _embedded(svg: str, *, name: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # HTML needs no namespaces, and plain href is what it calls xlink:href.
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, f"var({variable})")
    svg = re.sub(r'\s+(width|height)="[\d.]+pt"', "", svg, count=2)
    # Fonts are the page's; sizes stay.
    svg = re.sub(r"(font: [^;\"']*?px) [^;\"]*", r"\1 var(--font)", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


_FULL = (10.4, 3.2)
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


def time_per_stage(stages: Sequence[Stage], width_in: float = _FULL[0]) -> Drawing | None:
    """Duration of each stage as horizontal bars, in the order they ran."""
    if not stages:
        return None
    names = [stage.name for stage in stages]
    durations_s = [stage.duration_s for stage in stages]
    axes = axes_of_size(width_in, 0.7 + 0.3 * len(stages))
    bars = axes.barh(range(len(stages)), durations_s, height=0.62, color=OTHER)
    axes.bar_label(bars, [in_seconds(value) for value in durations_s], padding=4, color=INK)
    axes.set_yticks(range(len(stages)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=1.2 / width_in)
    axes.set_xlabel("seconds")
    total_s = sum(durations_s)
    longest = max(stages, key=lambda stage: stage.duration_s)
    label = "Time per stage: " + ", ".join(
        f"{stage.name} {in_seconds(stage.duration_s)}" for stage in stages
    )
    caption = f"{in_seconds(total_s)} in all; longest: {longest.name}."
    svg = inline_svg(axes, name="stages", label=label)
    return Drawing("Time per stage", caption, svg, width_in == _FULL[0])


def memory_over_time(data: ReportData) -> Drawing | None:
    """Memory of all processes over time, with the limit and the stages."""
    if not data.memory:
        return None
    samples = thinned(data.memory, 800)
    axes = axes_of_size(*_FULL)
    axes.set(xlabel="seconds since the start", ylabel="memory (MB)")
    sizes = [sample.bytes / _MEGABYTE for sample in samples]
    axes.plot([s.time_s for s in samples], sizes, color=OTHER, linewidth=1.4, label="all processes")
    peak, limit = max(sizes), _memory_limit(data)
    # It is drawn if that does not press the curve flat.
    is_in_view = limit is not None and limit <= _LIMIT_IN_VIEW * peak
    if (base := data.memory_baseline_bytes) is not None:
        axes.axhline(base / _MEGABYTE, color=INK, linewidth=1, linestyle=":", label="idle")
    if limit is not None and is_in_view:
        text = "idle + limit" if base is not None else "limit"
        axes.axhline(limit, color=LIMIT, linewidth=1.4, linestyle="--", label=text)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.12)
    axes.margins(x=0)
    _shade_stages(axes, data.stages)
    axes.legend(
        frameon=False, labelcolor=INK, loc="lower right", bbox_to_anchor=(1, 1), ncol=3, fontsize=8
    )
    label = f"Memory of all processes over time, peak {peak:,.0f} MB."
    caption = f"Peak {peak:,.0f} MB; shaded: every second stage."
    if limit is not None:
        caption += " The limit applies to what is above the idle processes."
        if not is_in_view:
            caption += f" Idle + limit, {limit:,.0f} MB, lies beyond the drawing."
    return Drawing("Memory over time", caption, inline_svg(axes, name="memory", label=label), True)


def _memory_limit(data: ReportData) -> float | None:
    """Limit on the memory of all processes, in MB."""
    if data.memory_limit_bytes is None:
        return None
    return ((data.memory_baseline_bytes or 0) + data.memory_limit_bytes) / _MEGABYTE


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


def _count_axis(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(lambda *_: "")
