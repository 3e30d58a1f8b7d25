"""Memory and files that a build's tasks use between them: buffers of threads, merged pieces.

Merged buckets wait for the chunks they fill in memory if one process does all and has more than the
sorting takes: the pieces are gone before the system would have brought files of them to the disk,
and pages of files that are written and read once cost more time than the sorting. Threads use their
buffers again from task to task: fresh memory costs a page fault for every 4 KiB, which on a virtual
machine takes longer than the sorting that is done in it; and buffers that stay make the memory of a
build easy to foresee.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.forked import free_in_child
from ooc_graph.layout.whole_file import renamed_file
from ooc_graph.types import AnyArray

_READ_ELEMENTS = 1 << 18
# Pieces smaller than this part of a buffer do not take a whole one.
_SMALL_PART = 4

_lock = free_in_child(threading.Lock())
_in_memory: dict[str, tuple[AnyArray, AnyArray]] = {}
_spare: list[AnyArray] = []


class PieceLostError(Exception):
    """The process that held a piece in memory is gone."""


@dataclass(frozen=True)
class Pieces:
    """Where the pieces of a build are: in files, or in memory if ``buffer_bytes`` is not 0.

    Then they are in buffers of this size that are used again; pieces that fill less than a quarter
    of one, are larger, or stay long have memory of their own. ``folder`` names them, too.
    """

    folder: str
    buffer_bytes: int

    def write(self, name: str, data: AnyArray, *, lasting: bool = False) -> None:
        """Keep a copy of ``data``; ``lasting``: for so long that no buffer is used again."""
        if not self.buffer_bytes:
            with renamed_file(Path(self.folder) / name) as partial:
                data.tofile(partial)
            return
        buffer = _take(data.nbytes, 0 if lasting else self.buffer_bytes)
        copy = buffer[: data.nbytes].view(data.dtype)
        copy[:] = data
        self.remove([name])
        with _lock:
            _in_memory[self._key(name)] = buffer, copy

    def read(self, name: str, dtype: np.dtype[Any], start: int, stop: int) -> Iterator[AnyArray]:
        """Yield elements ``start`` to ``stop - 1`` in order, some at a time.

        PieceLostError if it was in the memory of a process that ended.
        """
        if self.buffer_bytes:
            with _lock:
                piece = _in_memory.get(self._key(name))
            if piece is None:
                raise PieceLostError(name)
            yield piece[1][start:stop]
            return
        path = Path(self.folder) / name
        with path.open("rb", buffering=0) as file:
            file.seek(start * dtype.itemsize)
            while start < stop:
                data = np.fromfile(file, dtype, min(stop - start, _READ_ELEMENTS))
                if not len(data):
                    raise OSError(f"{path}: ended early while it was assembled")
                yield data
                start += len(data)

    def remove(self, names: Iterable[str]) -> None:
        """Forget pieces that are used up."""
        for name in names:
            if self.buffer_bytes:
                with _lock:
                    piece = _in_memory.pop(self._key(name), None)
                    if piece is not None and len(piece[0]) == self.buffer_bytes:
                        _spare.append(piece[0])
            else:
                (Path(self.folder) / name).unlink(missing_ok=True)

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}"


def forget_pieces(within: str | None = None) -> None:
    """Free the pieces of this process, or only those ``within`` a folder; and all buffers.

    No thread that borrowed one may be at work.
    """
    with _lock:
        _of_thread.clear()
        for key in list(_in_memory):
            if within is None or key.startswith(f"{within}/"):
                del _in_memory[key]
        _spare.clear()


def _take(size_bytes: int, buffer_bytes: int) -> AnyArray:
    """Memory for so much: a buffer, used again if there is one, or as large as what it is for."""
    if not buffer_bytes // _SMALL_PART <= size_bytes <= buffer_bytes:
        return np.empty(size_bytes, np.uint8)
    with _lock:
        for position, buffer in enumerate(_spare):
            if len(buffer) == buffer_bytes:
                return _spare.pop(position)
    return np.empty(buffer_bytes, np.uint8)


_of_thread: dict[int, dict[str, AnyArray]] = {}


def borrow(name: str, length: int, dtype: np.dtype[Any] | type[Any]) -> AnyArray:
    """Uninitialised array that is the calling thread's until it borrows ``name`` again."""
    with _lock:
        mine = _of_thread.setdefault(threading.get_ident(), {})
    needed = length * np.dtype(dtype).itemsize
    if name not in mine or mine[name].nbytes < needed:
        mine.pop(name, None)
        mine[name] = np.empty(needed, np.uint8)
    return mine[name][:needed].view(dtype)
