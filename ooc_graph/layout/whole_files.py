"""Files that appear whole, under a name that two writers may share.

A worker that was taken for lost may go on and write what another has written since, and another
stage may be reading by then. Both write the same bytes: what must not be seen is half of a file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Context that writes a file under another name, and renames it at the end.

    Yields
    ------
    The other name, in the same folder. If the context fails, nothing is left of it.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
