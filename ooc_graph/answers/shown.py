"""What notebooks and terminals show of a value: figures with units, and small HTML tables."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

_BINARY = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def size_text(size: int) -> str:
    """Bytes with a unit: ``1.5 GiB``."""
    for unit, factor in _BINARY:
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def time_text(seconds: float) -> str:
    """Seconds with a unit: ``1.5 s``, ``230 ms``."""
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def html_table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values for a notebook; text is escaped."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(str(name))}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"
