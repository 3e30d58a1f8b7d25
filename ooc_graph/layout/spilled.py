"""Files under ``spill/`` of a partial store, and how a later run knows them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import BadZipFile

import google_crc32c
import numpy as np

from ooc_graph.layout.blocks import byte_view, in_blocks, write_all
from ooc_graph.layout.chunks import FileEntry, make_folders
from ooc_graph.layout.whole_file import naming
from ooc_graph.types import AnyArray

_READ_BYTES = 1 << 20


@contextmanager
def arrays_in(path: str | Path) -> Iterator[Any]:
    """Context with the arrays of a .npz file. OSError, also if `zipfile` calls it another one."""
    try:
        with naming(Path(path)), np.load(path) as stored:
            yield stored
    except BadZipFile as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise


class SpillWriter:
    """Context in which arrays are written one after another to a file below a folder.

    Its folder is made. ``entry`` has what was written so far, with the crc32c of all of it.
    """

    def __init__(self, folder: Path, path: str) -> None:
        self._path, self._name = folder / path, path
        make_folders(folder, self._path.parent)
        self._file = self._path.open("wb", buffering=0)
        self._crc = self._size = 0

    def __enter__(self) -> SpillWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, data: AnyArray) -> None:
        """Add the elements of an array of one dimension."""
        content = np.ascontiguousarray(data).view(np.uint8)
        for block in in_blocks(content):
            write_all(self._file.fileno(), byte_view(block))
            self._crc = google_crc32c.extend(self._crc, block)
        self._size += len(content)

    @property
    def entry(self) -> FileEntry:
        """The file as it should be."""
        return FileEntry(self._name, self._size, "", self._crc)


def is_as_written(folder: Path, entry: FileEntry) -> bool:
    """Whether a file has the size and the bytes that its entry says; all of it is read."""
    crc, size = 0, 0
    with (folder / entry.path).open("rb", buffering=0) as file:
        while data := file.read(_READ_BYTES):
            crc, size = google_crc32c.extend(crc, data), size + len(data)
    return (size, crc) == (entry.size, entry.crc32c)
