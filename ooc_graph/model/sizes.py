"""Sizes of memory as users give them."""

from __future__ import annotations

import re

from ooc_graph.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST_BYTES = 1 << 62


def parse_bytes(
    text: str | int | None, *, option: str = "--memory-limit", or_none: bool = False
) -> int | None:
    """Bytes of "4GiB", "500 MB", "256MiB" or a plain number.

    A UsageError, for anything else, names the ``option``. Zero is refused unless it is a limit,
    too, so that nothing may be used (``or_none``).
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if not found or (found[3] and not found[2]):
        raise UsageError(f"{option} {text!r}: give bytes or a size such as 4GiB or 500MB")
    unit = (_BINARY if found[3] else _UNITS)[found[2]]
    size = float(found[1]) * unit
    if size < 1 and not (or_none and size == 0):
        raise UsageError(f"{option} {text!r}: give more than nothing")
    # More digits than a float holds are infinitely many bytes: no machine tells the difference.
    return int(min(size, _MOST_BYTES))
