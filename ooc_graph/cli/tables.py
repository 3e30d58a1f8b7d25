"""Tables on the standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from ooc_graph.errors import one_line

_WIDE = 100_000


def add_row(table: Table, *cells: str) -> None:
    """Add a row; what files say may be anything, and is shown in one line."""
    table.add_row(*map(one_line, cells))


def print_rows(columns: Sequence[str], rows: Iterable[dict[str, str]]) -> None:
    """Print rows of named cells under the names of the columns."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        add_row(table, *(row[column] for column in columns))
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table; a file or pipe has no width, so that nothing is cut or padded there."""
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(highlight=False, markup=False, width=_WIDE)
    with wide.capture() as captured:
        wide.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
