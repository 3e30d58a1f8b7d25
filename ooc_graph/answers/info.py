"""How an answer was found: where, by what, in which time, and what was rejected before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ooc_graph.answers.shown import size_text, time_text
from ooc_graph.layout.html_table import html_table


@dataclass(frozen=True, repr=False)
class Info:
    """How a search was carried out; all is empty if its answer was opened from a store.

    Attributes
    ----------
    device
        ``cpu`` or ``cuda``.
    strategy
        Device and tier by name, such as ``cpu/memory`` or ``cpu/disk, ranks``
        (docs/explanation/architecture.md has the table).
    method
        ``rows`` or ``edges``; for many sources ``batches`` or ``one by one``.
    exchange
        ``one`` if one process searched the whole graph, otherwise how ranks exchanged.
    ranks
        Number of ranks that searched.
    seconds
        Wall time by part: ``plan``; ``load``, until the graph is ready, with transfers; ``search``;
        ``order``, for columns read so far, or ``write``, for a store.
    tier_bytes
        Bytes of ``memory``, ``pinned`` host memory and the ``device`` that the search reserved, and
        the bytes that it ``read`` from the store, if counted.
    rejected
        Pairs of a strategy that comes before this one, and why it was rejected. Empty if the graph
        was already loaded, because then no other strategy is tried.
    """

    device: str = ""
    strategy: str = ""
    method: str = ""
    exchange: str = ""
    ranks: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    tier_bytes: Mapping[str, int] = field(default_factory=dict)
    rejected: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able; ``rejected`` as a dictionary by strategy."""
        return {
            "device": self.device,
            "strategy": self.strategy,
            "method": self.method,
            "exchange": self.exchange,
            "ranks": self.ranks,
            "seconds": dict(self.seconds),
            "tier_bytes": dict(self.tier_bytes),
            "rejected": dict(self.rejected),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for display; empty if nothing is known."""
        if not self.device:
            return []
        ranks = f", {self.ranks:,} ranks" if self.ranks > 1 else ""
        parts = ((part, time_text(taken)) for part, taken in self.seconds.items())
        tiers = ((tier, size_text(size)) for tier, size in self.tier_bytes.items())
        return [
            ("strategy", f"{self.strategy}{ranks}"),
            ("method", self.method),
            ("exchange", self.exchange),
            ("seconds", ", ".join(" ".join(part) for part in parts)),
            ("bytes", ", ".join(" ".join(tier) for tier in tiers)),
            *((f"rejected {name}", why) for name, why in self.rejected),
        ]

    def __repr__(self) -> str:
        if not self.device:
            return "<Info: opened from a store>"
        return f"<Info {'; '.join(f'{name}: {value}' for name, value in self.rows())}>"

    def _repr_html_(self) -> str:
        title = "How it was found" if self.device else "Opened from a store"
        return html_table(title, self.rows())
