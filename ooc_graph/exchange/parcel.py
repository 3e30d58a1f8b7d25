"""What travels between two workers in a superstep, cut into parts of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray

PART_BYTES = 32 << 20


class Kind(Enum):
    """What the ranks of the sender asked for."""

    SHARE = "share"
    ROUTE = "route"
    DONE = "done"


@dataclass(frozen=True)
class Parcel:
    """One part, of so many, of what a worker sends another in a superstep.

    The sender is its position in the party. The header, in part 0 alone, is what the receiver needs
    to put the arrays together. These are views of the sender's arrays before the journey, and of a
    receive buffer after it.
    """

    run_id: str
    attempt: int
    superstep: int
    sender: int
    part: int
    parts: int
    kind: Kind
    header: Any
    arrays: tuple[AnyArray, ...]

    @property
    def array_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)

    def copied(self) -> Parcel:
        """Return the parcel with arrays of its own, as the sender may overwrite them."""
        return replace(self, arrays=tuple(array.copy() for array in self.arrays))


@dataclass(frozen=True)
class Part:
    """Arrays of one parcel before it is addressed, with what part 0 says about them."""

    header: Any
    arrays: tuple[AnyArray, ...]


def cut_rows(
    columns: Sequence[AnyArray], header: Any, *, part_bytes: int = PART_BYTES
) -> list[Part]:
    """Cut columns of equal length (k,) into row ranges of at most ``part_bytes``; views."""
    row_bytes = sum(column.itemsize for column in columns)
    step = max(1, part_bytes // max(1, row_bytes))
    starts = range(0, max(1, len(columns[0])), step)
    return [
        Part(header if start == 0 else None, tuple(c[start : start + step] for c in columns))
        for start in starts
    ]


def cut_arrays(
    arrays: Sequence[AnyArray], note: Any = None, *, part_bytes: int = PART_BYTES
) -> list[Part]:
    """Pack arrays of any shapes and dtypes into parts of at most ``part_bytes``; views.

    The header carries ``note``, every array's shape, and which piece belongs to which array.
    """
    owners: list[int] = []
    parts: list[list[AnyArray]] = [[]]
    free_bytes = part_bytes
    for number, piece in _pieces(arrays, part_bytes):
        if piece.nbytes > free_bytes and parts[-1]:
            parts.append([])
            free_bytes = part_bytes
        parts[-1].append(piece)
        free_bytes -= piece.nbytes
        owners.append(number)
    header = (note, tuple(array.shape for array in arrays), tuple(owners))
    return [Part(header if i == 0 else None, tuple(part)) for i, part in enumerate(parts)]


def _pieces(arrays: Sequence[AnyArray], part_bytes: int) -> Iterator[tuple[int, AnyArray]]:
    for number, array in enumerate(arrays):
        flat = np.ascontiguousarray(array).reshape(-1)
        step = max(1, part_bytes // max(1, flat.itemsize))
        for start in range(0, max(1, len(flat)), step):
            yield number, flat[start : start + step]


def join_arrays(parts: Sequence[Part | Parcel]) -> tuple[Any, list[AnyArray]]:
    """Undo `cut_arrays`: the note and the arrays.

    Arrays that were never cut are views of their part if aligned.
    """
    note, shapes, owners = parts[0].header
    pieces: list[list[AnyArray]] = [[] for _ in shapes]
    for owner, piece in zip(owners, (a for part in parts for a in part.arrays), strict=True):
        pieces[owner].append(piece)
    whole = [_join(group).reshape(shape) for group, shape in zip(pieces, shapes, strict=True)]
    return note, whole


def _join(pieces: list[AnyArray]) -> AnyArray:
    if len(pieces) > 1:
        return np.concatenate(pieces)
    # Receive buffers hold several frames back to back; kernels are compiled for aligned arrays.
    return pieces[0] if pieces[0].flags.aligned else pieces[0].copy()
