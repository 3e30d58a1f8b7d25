"""One self-contained HTML page about a run: no script, no request to anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ooc_graph.layout.whole_file import whole_file
from ooc_graph.report import figures, search_figures
from ooc_graph.report.data import ReportData, Scalar, SearchRecord, by_kernel
from ooc_graph.report.figures import drawing_style
from ooc_graph.report.graph500 import engineering, teps_statistics

_STATUS_TEXT = {
    "passed": "All answers valid",
    "failed": "Validation failed",
    "skipped": "Not validated",
}


@dataclass(frozen=True)
class KeyFigure:
    """One figure of the headline: a value with its unit, and what it is."""

    value: str
    unit: str
    name: str


def write_page(path: str | Path, data: ReportData) -> None:
    """Write the report page, whole or not at all; the same data give the same bytes."""
    with whole_file(Path(path)) as partial:
        partial.write_text(page_html(data), encoding="utf-8")


def page_html(data: ReportData) -> str:
    """Text of the page that :func:`write_page` writes."""
    template = page_environment().get_template("page.html.j2")
    status = None if data.validation is None else _STATUS_TEXT[data.validation.status]
    with drawing_style():
        sections = _sections(data)
    return template.render(
        data=data,
        kernels=by_kernel(data.searches),
        status=status,
        key_figures=list(_key_figures(data)),
        sections=sections,
        tables=_tables(data),
        seconds=_seconds,
    )


def page_environment() -> Environment:
    """What makes pages of the templates in this folder."""
    environment = Environment(
        loader=PackageLoader("ooc_graph", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(value=_shown, amount=_amount, svg=Markup)
    return environment


def _key_figures(data: ReportData) -> Iterator[KeyFigure]:
    for kernel, searches in by_kernel(data.searches).items():
        yield _speed(kernel, searches)
    for energy in data.energy:
        if energy.mteps_per_watt is not None:
            name = f"{energy.kernel.upper()}, over average power"
            yield KeyFigure(f"{energy.mteps_per_watt:,.4g}", "MTEPS/W", name)
    if data.stages:
        elapsed_s = max(s.stop_s for s in data.stages) - min(s.start_s for s in data.stages)
        yield KeyFigure(f"{elapsed_s:,.1f}", "s", "whole run")
    if data.memory:
        peak_mb = max(sample.bytes for sample in data.memory) / 1e6
        yield KeyFigure(f"{peak_mb:,.0f}", "MB", "peak memory of all processes")


def _speed(kernel: str, searches: list[SearchRecord]) -> KeyFigure:
    """Harmonic mean TEPS, or the median time if edges were not counted."""
    name, count = kernel.upper(), len(searches)
    plural = "search" if count == 1 else "searches"
    counted = [(s.time_s, s.edges) for s in searches if s.edges is not None and s.teps is not None]
    if len(counted) == count:
        mean = teps_statistics(*zip(*counted, strict=True)).harmonic_mean
        value, prefix = engineering(mean)
        return KeyFigure(value, f"{prefix}TEPS", f"{name}, harmonic mean of {count} {plural}")
    middle_s = median(search.time_s for search in searches)
    return KeyFigure(f"{middle_s * 1e3:,.3g}", "ms", f"{name}, median of {count} {plural}")


def _sections(data: ReportData) -> list[tuple[str, str, list[figures.Drawing]]]:
    """Sections of drawings as (heading, text for an empty one, drawings)."""
    speed: list[figures.Drawing | None] = []
    levels = [figures.degree_distribution(data.degree_histogram)]
    cost: list[figures.Drawing | None] = []
    for kernel, searches in by_kernel(data.searches).items():
        times, rates = [s.time_s for s in searches], [s.teps for s in searches]
        speed.append(search_figures.quantity_per_search(kernel, times, "time", "s"))
        speed.append(search_figures.quantity_per_search(kernel, rates, "TEPS", ""))
        levels.append(search_figures.vertices_per_level(kernel, searches))
        levels.append(search_figures.arcs_per_level(kernel, searches, data.graph_arcs))
        cost.append(search_figures.waiting_per_search(kernel, searches))
    cost += [figures.time_per_stage(data.stages), figures.memory_over_time(data)]
    sections = [
        ("Speed", "Fewer than two searches were timed.", speed),
        ("Graph and levels", "Neither degrees nor levels were recorded.", levels),
        ("Time and memory", "Neither stages nor memory were recorded.", cost),
    ]
    return [(heading, empty, [d for d in drawn if d]) for heading, empty, drawn in sections]


def _tables(data: ReportData) -> list[tuple[str, Mapping[str, Scalar]]]:
    tables = [
        ("Parameters", data.parameters),
        ("Graph", data.graph),
        ("Machine", data.machine),
        ("Software", data.packages),
    ]
    for kernel, facts in data.tiers.items():
        # What searches read beside the memory that they run in.
        elsewhere = "link" if facts.get("tier") == "pinned" else "store"
        tables.append((f"Memory and {elsewhere}: {kernel.upper()}", facts))
    return [(caption, rows) for caption, rows in tables if rows]


def _shown(value: Any) -> str:
    if value is None:
        return "–"  # noqa: RUF001
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _amount(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"  # noqa: RUF001


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"  # noqa: RUF001
