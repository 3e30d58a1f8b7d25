"""Drawings of the page about runs of a job."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import EngFormatter

from ooc_graph.report.data import Stage
from ooc_graph.report.figures import (
    INK,
    LIMIT,
    Drawing,
    axes_of_size,
    inline_svg,
    series_colour,
    time_per_stage,
)
from ooc_graph.report.run_facts import RunFacts, duration

_SIZE = (4.2, 2.1)
_TICKS = 4
"""Most names of runs below a drawing."""


def stage_times(run: RunFacts) -> Drawing | None:
    """Seconds of each stage of a run, as bars."""
    spans, at = [], 0.0
    for stage in run.stages:
        if stage.seconds is not None:
            spans.append(Stage(stage.name, at, at + stage.seconds))
            at += stage.seconds
    return time_per_stage(spans, _SIZE[0])


def stage_over_runs(name: str, runs: Sequence[RunFacts]) -> Drawing | None:
    """Seconds of a stage over the runs, oldest first; None if fewer than two have any.

    Of a stage with several units their median. Dots of runs in which it was worse than in the one
    before are marked.
    """
    found = [(at, run.by_name[name]) for at, run in enumerate(runs) if name in run.by_name]
    dots = [(at, stage.median_s) for at, stage in found if stage.median_s is not None]
    if len(dots) < 2:
        return None
    worse = {at for at, run in enumerate(runs) if any(name == one.stage for one in run.worse)}
    axes = axes_of_size(*_SIZE)
    axes.plot(*zip(*dots, strict=True), color=series_colour(found[-1][1].kind), marker="o")
    if marked := [dot for dot in dots if dot[0] in worse]:
        x, y = zip(*marked, strict=True)
        axes.plot(x, y, linestyle="none", marker="X", markersize=9, color=LIMIT)
    axes.set_ylim(bottom=0, top=1.25 * max(value for _, value in dots) or 1)
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.yaxis.set_major_formatter(EngFormatter(unit="s"))
    step = -(-len(runs) // _TICKS)
    # The last run has its name in any case.
    ticks = range(len(runs) - 1, -1, -step)
    axes.set_xticks(ticks, [_short(runs[at].folder) for at in ticks], color=INK)
    (_, last), low, high = dots[-1], *(f(value for _, value in dots) for f in (min, max))
    caption = f"Last {duration(last)}; {duration(low)} to {duration(high)}."
    if marked:
        caption += " Crosses: worse than in the run before."
    label = f"{name}: seconds over {len(dots)} runs. {caption}"
    return Drawing(name, caption, inline_svg(axes, name=f"over-{name}", label=label))


def _short(name: str) -> str:
    """The end of a long name, which has the date or number."""
    return name if len(name) <= 12 else f"…{name[-11:]}"
