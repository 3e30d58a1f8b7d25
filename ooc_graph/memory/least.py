"""The errors of searches for which there is too little memory."""

from __future__ import annotations

from ooc_graph.errors import HOST, MemoryBudgetError


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


def require_in_worker(what: str, needed: int, there: int, advice: str, kind: str = "") -> None:
    """Refuse what needs more memory than a worker has; ``kind`` is named unless it is empty."""
    if needed > there:
        needs = f"{needed:,} bytes of {kind} memory" if kind else f"at least {needed:,} bytes"
        said = f"{what} needs {needs} in one worker, and a worker may use {there:,}; {advice}"
        raise MemoryBudgetError(said).needing(needed, kind or HOST)
