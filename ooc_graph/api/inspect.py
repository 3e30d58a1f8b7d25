"""What ``info`` shows of a store, and tables of facts."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from ooc_graph.layout.stored import Stored

_WIDE = 100_000


def describe_store(stored: Stored) -> dict[str, Any]:
    """Facts of a store, JSON-able."""
    files = stored.manifest.files.values()
    return {
        "path": str(stored.path),
        "kind": stored.manifest.kind,
        **stored.attributes,
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "manifest_sha256": stored.manifest.sha256,
    }


def print_table(facts: dict[str, Any]) -> None:
    """Facts as a table on stdout."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        for key, text in _rows(name, value):
            table.add_row(key.replace("_", " "), text)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    # A file or pipe has no width: nothing is cut there, and nothing is padded.
    wide = Console(highlight=False, width=_WIDE)
    with wide.capture() as captured:
        wide.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(f"{name}: {key}", inner)]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(name, f"{value:,}" if name not in ("root", "first_id") else str(value))]
    return [(name, "-" if value is None else str(value))]
