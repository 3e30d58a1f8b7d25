"""Arrays of a store that another one has, too: second names of the same files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ooc_graph.errors import OocGraphError
from ooc_graph.layout.chunks import FileEntry, make_folders
from ooc_graph.layout.stored import Stored


def any_store(folder: Path, suffix: str) -> Stored | None:
    """A finished store among those in a folder whose names end so, if there is one."""
    with suppress(OocGraphError, OSError):
        path = next((one for one in folder.iterdir() if one.suffix == suffix), None)
        return None if path is None else Stored.open(path)
    return None


def link_array(stored: Stored, array: str, partial: Path) -> list[FileEntry]:
    """Give the chunks of an array second names in a partial store; what its manifest says.

    Nothing is done if the file system does not allow it, or the store is on another one.
    """
    spec, entries = stored.spec(array), list[FileEntry]()
    crcs = stored.sidecar(array).tolist()
    each = len(crcs) // max(1, spec.chunks)
    for index in range(spec.chunks):
        entry = stored.manifest.files[spec.chunk_path(index)]
        make_folders(partial, (partial / entry.path).parent)
        try:
            (partial / entry.path).hardlink_to(stored.path / entry.path)
        except OSError:
            for done in entries:
                (partial / done.path).unlink()
            return []
        entries.append(replace(entry, sidecar=tuple(crcs[index * each : (index + 1) * each])))
    return entries
