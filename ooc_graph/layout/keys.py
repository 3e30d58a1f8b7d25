"""Keys of checkpoints: what their bytes follow from, and what of it has changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ooc_graph.layout.json_text import parsed
from ooc_graph.types import Progress


def key_for(begun_with: Mapping[str, str]) -> str:
    """Key of checkpoints whose bytes follow from this."""
    return json.dumps(begun_with, sort_keys=True)


def differing(key: str, begun_with: Mapping[str, str]) -> list[str]:
    """Names of what a key that `key_for` made has otherwise. ValueError, TypeError: no such key."""
    before = dict(parsed(key))
    return [name for name in {**begun_with, **before} if before.get(name) != begun_with.get(name)]


def say_changed(keys: Iterable[str], begun_with: Mapping[str, str], progress: Progress) -> None:
    """Say why what earlier runs left, by their keys, is not used."""
    for key in keys:
        # One that is damaged, or of an earlier version of the package, tells nothing.
        with suppress(TypeError, ValueError):
            changed = differing(key, begun_with)
            if "kernel" in changed:
                # All else is something else, too.
                changed = ["kernel"]
            elif "device" in changed:
                # Which has code of its own.
                changed = [name for name in changed if name != "version"]
            said = " and ".join(changed)
            progress.note(f"what a stopped run left is not used: {said} changed")
