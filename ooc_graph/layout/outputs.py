"""What may be written where: outputs that would replace or damage something are refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryFile

from ooc_graph.errors import OutputExistsError, UsageError
from ooc_graph.layout.kinds import kind_of
from ooc_graph.layout.names import ASIDE, MANIFEST
from ooc_graph.layout.whole_file import is_disk_full

ID_LENGTH = 12
"""Letters of a run's id, which is part of the names of what it writes."""


def refuse_output(final: Path, kind: str, overwrite: bool) -> None:
    """Refuse to write a store of some kind, ``graph`` or ``result``, to a path."""
    refuse_long_name(final)
    refuse_existing(final, kind, overwrite)
    refuse_folder(final)


def refuse_existing(final: Path, kind: str, overwrite: bool) -> None:
    """Refuse an output that is there, unless it is a store of that kind and may be replaced."""
    if not final.exists() and not final.is_symlink():
        return
    if not overwrite:
        raise OutputExistsError(f"{final}: exists already; give --overwrite to replace it")
    if not (final / MANIFEST).is_file():
        raise OutputExistsError(
            f"{final}: is not a store of this package, so it is not replaced; remove it yourself"
        )
    if (there := kind_of(final)) not in (kind, None):
        raise OutputExistsError(
            f"{final}: holds a {there}, which a {kind} does not replace; give another name"
        )


def refuse_long_name(path: Path) -> None:
    """Refuse an output whose name is too long for what is added while it is written."""
    try:
        longest = os.pathconf(path.absolute().parent, "PC_NAME_MAX")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(f"{path}: cannot be written here ({error.strerror})") from error
        return  # What is the matter with the folder is said elsewhere.
    most = longest - len(ASIDE) - ID_LENGTH
    # Some file systems say that they know no limit.
    if longest > 0 and len(os.fsencode(path.name)) > most:
        raise UsageError(
            f"{path}: the name is too long to write it here; give one of {most} bytes at most"
        )


def refuse_folder(path: Path) -> None:
    """Refuse an output in no folder, and as `refuse_inside`."""
    if not path.absolute().parent.is_dir():
        raise OutputExistsError(f"{path.parent}: no such folder to write {path.name} into")
    refuse_inside(path.absolute().parent, path)


def refuse_inside(standing: Path, output: Path) -> None:
    """Refuse an output in a folder that takes no file, or is in a finished store, or is one.

    That would be damaged by it. ``standing`` is there already; folders between are not.
    """
    for folder in (standing, *standing.parents):
        if kind_of(folder) is not None:
            raise OutputExistsError(
                f"{output}: lies inside the store {folder}; give another folder"
            )
    _refuse_unwritable(standing, output)


def refuse_file(path: Path) -> None:
    """Refuse a file that would replace a folder, one with a long name, and as `refuse_folder`."""
    refuse_long_name(path)
    if path.is_dir():
        raise OutputExistsError(f"{path}: is a folder; give the name of a file to write")
    refuse_folder(path)


def make_folder(folder: Path) -> None:
    """Make a folder for outputs, or refuse one that takes no file; OSError if the disk is full."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _refuse(folder, error)
        raise
    _refuse_unwritable(folder, folder)


def _refuse_unwritable(folder: Path, output: Path) -> None:
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        # Of a full disk it is said elsewhere what of the output is kept.
        _refuse(output, error)


def _refuse(output: Path, error: OSError) -> None:
    """Refuse an output by what the system says, unless that is a full disk, or one that fails."""
    if error.errno == errno.EIO:
        raise error
    if not is_disk_full(error):
        raise UsageError(f"{output}: cannot be written here ({error.strerror})") from error
