"""The table of strategies, in the order in which they are tried; printed with ``pytest -s``."""

from __future__ import annotations

from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.search.candidates import CANDIDATES

ORDER = (
    "cuda/memory",
    "cuda/pinned",
    "cuda/memory, ranks",
    "cuda/pinned, ranks",
    "cuda/disk",
    "cuda/owned, ranks",
    "cuda/owned pinned, ranks",
    "cuda/disk, ranks",
    "cuda/owned disk, ranks",
    "cpu/edges",
    "cpu/memory",
    "cpu/memory, ranks",
    "cpu/disk",
    "cpu/owned, ranks",
    "cpu/disk, ranks",
    "cpu/owned disk, ranks",
    "cpu/stream",
    "cpu/stream, ranks",
)


def test_the_order_of_strategies() -> None:
    table = [*CANDIDATES[CUDA](), *CANDIDATES[CPU]()]
    for candidate in table:
        print(f"{candidate.name:18} {(type(candidate).__doc__ or '').splitlines()[0]}")  # noqa: T201
    assert tuple(candidate.name for candidate in table) == ORDER
    assert all(candidate.name.startswith(f"{candidate.device}/") for candidate in table)
