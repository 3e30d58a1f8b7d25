"""Figures with units, as notebooks and terminals show them."""

from __future__ import annotations

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
