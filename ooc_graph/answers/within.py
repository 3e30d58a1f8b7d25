"""How far a search from one source is wanted: to a distance, or until some vertices are reached."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ooc_graph.answers.asked import largest_reached
from ooc_graph.answers.reductions import finite
from ooc_graph.errors import UsageError
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray


@dataclass(frozen=True)
class Within:
    """How far a search is wanted.

    ``cutoff`` is the largest level or distance that counts as reached; None: any. ``targets``,
    int64, are positions among all vertices; None: no search ends early for them.

    Both come to one limit, and vertices beyond it are unreached, whatever a search found of them:
    the cutoff, or the largest level or distance of a target if all of them are reached, whichever
    is less. So an answer has the same bytes wherever a search stopped.
    """

    cutoff: float | None = None
    targets: IntArray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is no distance, with a UsageError."""
        if self.cutoff is not None:
            said = f"cutoff {self.cutoff!r}: give a finite number, 0 or more"
            cutoff = finite(self.cutoff, said)
            if cutoff < 0:
                raise UsageError(said)
            object.__setattr__(self, "cutoff", cutoff)

    def limit_of(self, found: AnyArray) -> Any:
        """The limit, or None if there is none; ``found`` (targets,) are levels or distances."""
        limits = []
        if self.cutoff is not None:
            limits.append(largest_reached(self.cutoff, found.dtype).item())
        if self.targets is not None and is_reached(found).all():
            limits.append(found.max().item())
        return min(limits, default=None)

    @property
    def facts(self) -> dict[str, str]:
        """What tells it from others, as words."""
        targets = b"" if self.targets is None else np.sort(self.targets).tobytes()
        digest = hashlib.sha256(targets).hexdigest()
        return {"cutoff": str(self.cutoff), "targets": digest}


def is_reached(found: AnyArray) -> AnyArray:
    """Whether levels, int32, or distances are of vertices that were reached."""
    far = np.inf if found.dtype.kind == "f" else INT64_UNREACHED
    reached: AnyArray = (found >= 0) & (found != far)
    return reached
