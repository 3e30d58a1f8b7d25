"""How far a BFS is wanted, by rows: searches that can end early look at it after each level."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class Wanted:
    """No level is wanted beyond ``most``, nor beyond that of the last of the ``targets``.

    These are rows, int64, all of which are to be reached; none: they are no reason to end.
    """

    most: int = int(np.iinfo(np.int64).max)
    targets: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def is_found(self, level: AnyArray, depth: int) -> bool:
        """Whether that is all, now that the rows of a level are known by ``level``, (rows,)."""
        if depth >= self.most:
            return True
        return len(self.targets) > 0 and bool((level[self.targets] >= 0).all())


EVERYTHING = Wanted()
"""All that can be reached."""
