"""Bytes that the searches of a step took, by tier: of memory, and read of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ooc_graph.report.graph500 import engineering

_WORDS = {
    "memory": "of memory",
    "pinned": "of pinned memory",
    "device": "of device memory",
    "read": "read of the store",
}


def tier_bytes(units: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Most that a unit reserved of each kind of memory, and what all of them read."""
    every = [unit.get("tier_bytes", {}) for unit in units]
    found = {}
    for tier in _WORDS:
        if sizes := [one[tier] for one in every if tier in one]:
            found[tier] = sum(sizes) if tier == "read" else max(sizes)
    return found


def tier_text(found: Mapping[str, int]) -> str:
    """Bytes by tier, in words; empty if there are none."""
    known = {said: engineering(found[tier]) for tier, said in _WORDS.items() if tier in found}
    return ", ".join(f"{size} {prefix}B {said}" for said, (size, prefix) in known.items())
