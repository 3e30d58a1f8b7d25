"""What stands at a store's path now: a store may be replaced or removed while it is read.

`ooc_graph.layout.commit` puts a new store in the place of an old one, in one step or by two renames
with no store in between. A reader that continues by the same path then finds files of the new
store, or none, and these look damaged to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import sleep

from ooc_graph.errors import StoreReplacedError
from ooc_graph.layout.names import ASIDE, MANIFEST

_LOOKS = 100
_PAUSE_S = 0.01
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

Stamp = tuple[int, int]
"""Which manifest file it is: inode, and when that was last changed in ns.

Two files at a path never have the same one, even if their bytes are equal.
"""


def manifest_at(store: Path) -> tuple[bytes, Stamp] | None:
    """Content and stamp of the manifest that stands at a path; None if there is no store.

    Between the two renames that replace a store it waits for the new one, for a second.
    """
    path = store / MANIFEST
    for _ in range(_LOOKS):
        try:
            with path.open("rb") as file:
                state = os.fstat(file.fileno())
                return file.read(), (state.st_ino, state.st_ctime_ns)
        except _MISSING:
            if not _is_aside(store) and not path.is_file():
                return None
        sleep(_PAUSE_S)
    return None


def _is_aside(store: Path) -> bool:
    prefix = f"{store.name}{ASIDE}"
    try:
        return any(path.name.startswith(prefix) for path in store.parent.iterdir())
    except OSError:
        return False


def refuse_other(path: Path, found: str, wanted: str) -> None:
    """Refuse a graph, stored or in memory, whose identity is not the one that was opened."""
    if found != wanted:
        raise replaced(path)


def replaced(path: Path) -> StoreReplacedError:
    """The error that says so."""
    return StoreReplacedError(f"{path}: the store was replaced since it was opened; open it again")
