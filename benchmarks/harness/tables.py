"""Figures as tables on the terminal, and tables in Markdown."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

WIDTH = 150
"""Columns of an output that is no terminal."""
RATES = ("harmonic_mean", "minimum", "first_quartile", "median", "third_quartile", "maximum")
"""Statistics of TEPS in records, in the order in which they are shown."""
Cells = dict[str, str]


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def title_of(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def show(title: str, figures: Any) -> None:
    """Print numbers and texts among figures; lists of single measurements are left out.

    Figures with parts, such as a median of each of two libraries, share a table if their first
    parts have the same name. Names say the units.
    """
    if not isinstance(figures, Mapping):
        figures = dict(enumerate(figures))
    alone: Cells = {}
    groups: dict[str, dict[str, Cells]] = defaultdict(dict)
    nested = {name: value for name, value in figures.items() if has_parts(value)}
    for name, value in figures.items():
        if name not in nested and isinstance(value, Mapping):
            cells = {str(part): text(one) for part, one in value.items() if is_single(one)}
            groups[next(iter(cells), "")][str(name)] = cells
        elif is_single(value):
            alone[str(name)] = text(value)
    output = console()
    output.print(title, style="bold", highlight=False)
    for rows in groups.values():
        columns = list(dict.fromkeys(part for cells in rows.values() for part in cells))
        if len(rows) == 1:
            ((name, cells),) = rows.items()
            alone |= {f"{name}: {part}": cell for part, cell in cells.items()}
        elif columns:
            table = [[name, *map(cells.get, columns)] for name, cells in rows.items()]
            _print_table(output, ["", *columns], table)
    if alone:
        _print_table(output, ["", ""], [list(one) for one in alone.items()])
    for name, value in nested.items():
        show(name, value)


def _print_table(
    output: Console, head: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> None:
    table = Table(show_header=any(head))
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    output.print(table)


def has_parts(value: Any) -> bool:
    """Whether a figure is made of figures that have parts themselves."""
    return isinstance(value, Mapping) and any(isinstance(one, Mapping) for one in value.values())


def is_single(value: Any) -> bool:
    """Whether a figure is a number or a text."""
    return value is None or isinstance(value, int | float | str | np.generic)


def text(value: Any) -> str:
    """A figure with four significant digits, or all of a whole number."""
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def markdown(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
