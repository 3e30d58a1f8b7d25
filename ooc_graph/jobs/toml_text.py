"""TOML as text: which line a key stands in, and tables written as TOML, which Python only reads."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = Sequence[str | int]
"""Keys, and numbers in lists from 0, that lead to a value."""


Statement: TypeAlias = tuple[int, dict[str, Any]]
"""Line, from 1, in which a statement begins; and what it says, in the table that it is in."""


def tables_of(text: str) -> dict[str, Any]:
    """What a text says. ValueError: it is no TOML, or has what Python cannot take in.

    That is a number of thousands of digits, or values within values by the hundred.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def statements_of(text: str) -> list[Statement]:
    """The statements of TOML that can be read; each ends where what it begins with can be read."""
    found, lines, begin, lists, table = list[Statement](), text.split("\n"), 1, "", ""
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[begin - 1 : end]) + "\n"
        try:
            # As many tables of a list as there were before, so that it has the right number.
            found.append((begin, tables_of(lists + table + statement)))
        except ValueError:
            continue
        begin = end + 1
        header = statement.lstrip()
        if header.startswith("[["):
            lists, table = lists + statement, ""
        elif header.startswith("["):
            table = statement
    return found


def line_of(statements: Sequence[Statement], path: Path) -> int | None:
    """Line in which the first statement begins that gives a value; None if none does."""
    return next((line for line, tables in statements if has(tables, path)), None)


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
