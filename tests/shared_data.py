"""Where the reference graphs lie; they are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_dir() -> Path | None:
    """Folder with `data/` and `spec/`, or None."""
    named = os.environ.get("OOC_GRAPH_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    return folder if (folder / "data").is_dir() else None


def need_shared(relative: str = "") -> Path:
    """Path inside the shared folder, or skip the test saying what is missing."""
    folder = shared_dir()
    if folder is None or not (folder / relative).exists():
        pytest.skip(f"reference data not there: set OOC_GRAPH_SHARED (wanted {relative or '.'})")
    return folder / relative
