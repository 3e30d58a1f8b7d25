"""Small HTML tables, as notebooks show values."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any


def html_table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values; text is escaped."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(str(name))}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"
