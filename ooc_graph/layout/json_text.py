"""JSON that others may have written."""

from __future__ import annotations

import json
from typing import Any


def parsed(content: bytes | str) -> Any:
    """What a text says. ValueError: it is no JSON, or is nested deeper than Python can follow."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
