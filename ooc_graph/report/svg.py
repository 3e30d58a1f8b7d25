"""Matplotlib figures as inline SVG whose colours are the page's CSS variables.

Figures are drawn in placeholder colours, which are then replaced by ``var(--name)``: the same
drawing is legible in a light and in a dark page. pyplot is not used, so no global figure state is
touched.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
