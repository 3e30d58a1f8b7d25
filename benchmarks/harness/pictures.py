"""The style that all pictures share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

# Okabe and Ito's colours, told apart by colour-blind readers.
BLUE, VERMILION, ORANGE, GREEN = "#0072B2", "#D55E00", "#E69F00", "#009E73"
PURPLE, SKY, YELLOW = "#CC79A7", "#56B4E9", "#F0E442"
KERNELS = {"bfs": BLUE, "sssp": VERMILION}
INK, GREY, GRID = "#333333", "#999999", "#d9d9d9"


@contextmanager
def picture(
    name: str, path: Path, size: tuple[float, float], layout: Any = "constrained"
) -> Iterator[Figure]:
    """Context with a figure that is written at the end; the path's ending says what kind of file.

    SVG files with the same content have the same bytes. Without a layout all that is drawn is
    within the picture, whatever its size.
    """
    settings: Any = {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 8}
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout=layout)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        bounds = None if layout else "tight"
        figure.savefig(path, metadata=metadata, dpi=130, facecolor="white", bbox_inches=bounds)


def titled(axis: Axes, title: str, x: str = "", y: str = "", grid: Any = None) -> None:
    """Name a panel and its axes, without a frame; draw a grid along ``x``, ``y`` or ``both``."""
    axis.set_title(title, loc="left")
    axis.set_xlabel(x, color=INK)
    axis.set_ylabel(y, color=INK)
    plain(axis, grid)


def end_label(axis: Axes, at: tuple[float, float], text: str, colour: str) -> None:
    """Write a text on the right of a point."""
    axis.annotate(text, at, (6, 0), textcoords="offset points", va="center", color=colour)


def plain_numbers(axis: Any) -> None:
    """Have an x or y axis name its ticks by plain numbers, and have no small ones."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def plain(axis: Axes, grid: Any = None) -> None:
    """Leave out the frame and the ticks; draw a grid along ``x``, ``y`` or ``both``."""
    if grid is not None:
        axis.grid(axis=grid, color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", length=0, colors=INK)
    for side in axis.spines.values():
        side.set_visible(False)
