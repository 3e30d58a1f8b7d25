"""Answers that wait in files for their validation, while the graph makes room for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Columns
from ooc_graph.layout.whole_file import disk_full_reported
from ooc_graph.types import AnyArray

_PREFIX = ".answers-"


@dataclass(frozen=True)
class AnswerFiles:
    """Columns of answers, each in a file of its own; read in the order they were written."""

    folder: Path
    _waiting: deque[list[tuple[Path, np.dtype[Any], int]]] = field(default_factory=deque)

    def write(self, columns: Columns, names: Sequence[str]) -> None:
        """Write some columns of an answer, a piece at a time.

        DiskFullError: names the folder that is full.
        """
        files = []
        for name in names:
            path = self.folder / f"{len(self._waiting)}-{name}"
            with disk_full_reported(self.folder.parent), path.open("wb") as file:
                for part in columns.parts(name, 0, columns.size):
                    part.tofile(file)
            files.append((path, columns.dtypes[name], columns.size))
        self._waiting.append(files)

    def read(self) -> list[AnyArray]:
        """The columns of the next answer; the system keeps of them what memory has room for."""
        return [
            np.asarray(np.memmap(path, dtype, "c", shape=(size,)))
            for path, dtype, size in self._waiting.popleft()
        ]


@contextmanager
def answer_files(folder: Path) -> Iterator[AnswerFiles]:
    """Context of files in a folder, which are removed at its end."""
    with TemporaryDirectory(prefix=_PREFIX, dir=folder) as inner:
        yield AnswerFiles(Path(inner))


def remove_filed(folder: Path) -> None:
    """Remove what a run that was killed left in its folder."""
    for left in folder.glob(f"{_PREFIX}*"):
        rmtree(left, ignore_errors=True)
