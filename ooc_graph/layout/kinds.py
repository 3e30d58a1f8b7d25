"""What kind of store there is, without a look at the rest of it."""

from __future__ import annotations

import errno
from pathlib import Path

from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.names import MANIFEST
from ooc_graph.layout.whole_file import content_of


def kind_of(store: Path) -> str | None:
    """Kind that a store's manifest states, None if it is damaged, or nobody may read it here.

    OSError: the disk fails. What cannot be read now may be a store all the same.
    """
    path = store / MANIFEST
    try:
        return kind_in(content_of(path))
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        return None


def kind_in(content: bytes) -> str | None:
    """Kind that the content of a manifest states, None if it is none."""
    try:
        document = parsed(content)
        is_manifest = {"version", "kind", "files"} <= document["body"].keys()
        return str(document["body"]["kind"]) if is_manifest and "sha256" in document else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
