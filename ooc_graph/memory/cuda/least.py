"""The error of a search on a CUDA device for which there is too little memory."""

from __future__ import annotations

from ooc_graph.errors import MemoryBudgetError


def require_bytes(
    what: str, kind: str, needed: int, there: int, advice: str, *, of: str = ""
) -> None:
    """Refuse what needs more memory of a kind than there is; ``of`` says whose memory it is."""
    if needed > there:
        said = (
            f"{what} needs at least {needed:,} bytes of {kind} memory{of}, and {there:,} may be "
            f"used; {advice}"
        )
        raise MemoryBudgetError(said).needing(needed, kind)
