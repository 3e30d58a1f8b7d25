"""Tables on the standard output."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from ooc_graph.errors import one_line

_WIDE = 100_000


def add_row(table: Table, *cells: str) -> None:
    """Add a row; what files say may be anything, and is shown in one line."""
    table.add_row(*map(one_line, cells))


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
