"""Remove what earlier runs left: they were killed, or their disk failed."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from ooc_graph.errors import OutputBusyError
from ooc_graph.layout.locks import is_lock, locked
from ooc_graph.layout.names import REMOVED
from ooc_graph.layout.whole_file import PARTIAL

STORE = ".zarr"


def remove_leftovers(run: Path) -> None:
    """Remove what a run left in its folder and in those of its answers.

    Writing a store again would remove what is left of it, but one that is done is not written
    again. Stores that are not done stay: this run goes on with them.
    """
    remove_partial_files(run)
    # What a link leads to may be somebody's own.
    folders = (one for one in run.iterdir() if one.is_dir() and not one.is_symlink())
    for folder in (run, *(one for one in folders if STORE not in one.suffixes)):
        for removed in folder.glob(f"*{REMOVED}*"):
            rmtree(removed, ignore_errors=True)
        for lock in folder.glob("*.lock"):
            output = lock.with_suffix("")
            if output.is_dir() and is_lock(lock):
                # Whoever holds it now removes it.
                with suppress(OutputBusyError), locked(output, uuid.uuid4().hex):
                    pass


def remove_partial_files(folder: Path) -> None:
    """Remove files that were not written to their end."""
    for left in folder.glob(f"*{PARTIAL}*"):
        if left.is_file():
            left.unlink()
