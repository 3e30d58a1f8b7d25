"""JSON that others may have written, and JSON for people."""

from __future__ import annotations

import json
from typing import Any


def parsed(content: bytes | str) -> Any:
    """What a text says. ValueError: it is no JSON, or is nested deeper than Python can follow."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def indented(value: Any) -> str:
    """What ``json.dumps(value, indent=1, sort_keys=True)`` gives; keys are strings.

    That leaves functions that refer to each other, garbage which stays until Python looks for some.
    """
    return _indented(value, "\n")


def _indented(value: Any, margin: str) -> str:
    inner = f"{margin} "
    if isinstance(value, dict) and value:
        items = sorted(value.items())
        lines = (f"{json.dumps(name)}: {_indented(one, inner)}" for name, one in items)
        return "{" + inner + f",{inner}".join(lines) + margin + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + inner + f",{inner}".join(_indented(one, inner) for one in value) + margin + "]"
    return json.dumps(value)
