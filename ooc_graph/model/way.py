"""How a search is carried out: device, ranks, and where rows are."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.model.resources import CPU


@dataclass(frozen=True)
class Way:
    """How a search is carried out.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    exchange
        ``one`` rank, or ``local`` or ``scheduler``.
    why
        Why it is the CPU if ``auto`` was asked for; else empty.
    budget_bytes
        Memory for a search whose arcs stay in the store, or, on a CUDA device, device memory for
        one whose rows are in host memory or in the store; 0 if all are brought into memory.
    copies
        Whether rows in memory may be kept in another form besides, which some searches gain by.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    """

    device: str
    exchange: str
    why: str = ""
    budget_bytes: int = 0
    copies: bool = True
    host_bytes: int | None = None

    @property
    def said(self) -> str:
        """Where it goes, in words."""
        if self.device == CPU:
            return f"on the CPU: {self.why}" if self.why else "on the CPU"
        return "by one rank" if self.exchange == "one" else f"by ranks, exchange {self.exchange}"


def refusal_of(error: Exception) -> str:
    """What an error says that tells of refused memory; Python's own may say nothing."""
    if not isinstance(error, MemoryError):
        return str(error)
    return f"host memory was refused: {error}" if str(error) else "host memory was refused"
