"""Arrays of a store that another store also has: second names of the same files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ooc_graph.errors import OocGraphError
from ooc_graph.layout.chunks import FileEntry, ends_in_crc, make_folders
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.stored import Stored


def link_array(stored: Stored, spec: ArraySpec, partial: Path) -> list[FileEntry]:
    """Give the chunks of an array second names in a partial store; what its manifest says.

    Nothing is done, and nothing returned, if the array is another one, if the store was replaced or
    harmed since it was opened, or if the file system allows no second names.
    """
    entries, linked = list[FileEntry](), list[Path]()
    with suppress(OocGraphError, OSError):
        if stored.spec(spec.path) != spec:
            return []
        crcs = stored.sidecar(spec.path).tolist()
        each = len(crcs) // max(1, spec.chunks)
        for index in range(spec.chunks):
            entry = stored.manifest.files[spec.chunk_path(index)]
            path = partial / entry.path
            make_folders(partial, path.parent)
            path.hardlink_to(stored.path / entry.path)
            linked.append(path)
            if not ends_in_crc(path, entry):
                break
            entries.append(replace(entry, sidecar=tuple(crcs[index * each : (index + 1) * each])))
    if len(entries) == spec.chunks:
        return entries
    for path in linked:
        path.unlink()
    return []
