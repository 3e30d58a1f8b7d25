"""TOML as text: which line a key stands in, and tables written as TOML, which Python only reads."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = Sequence[str | int]
"""Keys, and numbers in lists from 0, that lead to a value."""


def line_of(text: str, path: Path) -> int | None:
    """Line, from 1, in which the statement begins that gives a value; None if none does.

    ``text`` is TOML that can be read. Each statement ends where what stands before can be read.
    """
    lines, begin = text.split("\n"), 1
    for end in range(1, len(lines) + 1):
        try:
            found = tomllib.loads("\n".join(lines[:end]) + "\n")
        except tomllib.TOMLDecodeError:
            continue
        if has(found, path):
            return begin
        begin = end + 1
    return None


def has(value: Any, path: Path) -> bool:
    """Whether there is something at a path."""
    for step in path:
        is_there = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not is_there and not (isinstance(value, dict) and step in value):
            return False
        value = value[step]
    return True


def dotted(path: Path) -> str:
    """A path as messages have it: ``stage[1].roots``."""
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).removeprefix(".")


def to_toml(tables: Mapping[str, Any]) -> str:
    """Values, tables of values and lists of such tables as TOML, in this order of kinds."""
    plain = {key: value for key, value in tables.items() if not _is_table(value)}
    blocks = [_block("", plain)] if plain else []
    for key, value in tables.items():
        if isinstance(value, Mapping):
            blocks.append(_block(f"[{key}]\n", value))
        elif _is_table(value):
            blocks += [_block(f"[[{key}]]\n", one) for one in value]
    return "\n".join(blocks)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    )


def _block(header: str, values: Mapping[str, Any]) -> str:
    # Which kind it is comes first.
    ordered = sorted(values.items(), key=lambda item: item[0] != "kind")
    return header + "".join(f"{key} = {_written(value)}\n" for key, value in ordered)


def _written(value: Any) -> str:
    if isinstance(value, str):
        # JSON's escapes are TOML's; of what TOML forbids JSON leaves one character as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value).lower()
