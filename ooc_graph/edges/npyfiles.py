"""``.npy`` and ``.npz`` files as columns that are read in slices.

Slices are read with ``readinto``: a memory map counts as resident memory and has made Dask end
workers. Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from ooc_graph.edges.options import SOURCE_NAMES, TARGET_NAMES
from ooc_graph.errors import InputError
from ooc_graph.types import AnyArray

_UNREADABLE = (
    *(ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error),
    # A header is read as Python; of a member that is packed in another way, or encrypted.
    *(SyntaxError, TokenError, TypeError, KeyError, RuntimeError, MemoryError),
)
"""What libraries raise for bytes that are no array, or no archive."""


@dataclass(frozen=True)
class NpyPart:
    """One array in a file: a ``member`` of an ``.npz``, or of no name, an ``.npy``.

    Its data begin ``start`` bytes into the (unpacked) array file.
    """

    path: str
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    def open(self) -> IO[bytes]:
        """Open the array file at its first byte."""
        if not self.member:
            return Path(self.path).open("rb")
        return zipfile.ZipFile(self.path).open(self.member)


def read_header(path: str, member: str = "") -> NpyPart:
    """Header of an array; InputError if it is no array of numbers."""
    part = NpyPart(path, member, (), np.dtype(np.int64), False, 0)
    try:
        with part.open() as file:
            version = npy_format.read_magic(file)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise ValueError(f"its version is {version[0]}.{version[1]}")
            read = (
                npy_format.read_array_header_1_0
                if version == (1, 0)
                else npy_format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
            start = file.tell()
            size = _size_of(path, member)
    except _UNREADABLE as error:
        raise InputError(
            f"cannot be read as an array: {error}", path=path, advice="write it with numpy.save"
        ) from error
    if dtype.kind not in "iuf" and len(shape) > 0:
        raise InputError(
            f"{member or 'the array'} has dtype {dtype}", path=path, advice="expected numbers"
        )
    if min(shape, default=0) < 0 or size < start + prod(shape) * dtype.itemsize:
        raise InputError(
            f"the header declares shape {shape}, the file is shorter",
            path=path,
            advice="the file is cut short",
        )
    return NpyPart(path, member, tuple(shape), dtype, bool(fortran), start)


def _size_of(path: str, member: str) -> int:
    """Bytes of an array file, unpacked as the archive says."""
    if not member:
        return Path(path).stat().st_size
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member} is packed in a way that numpy.savez does not use")
    # The archive may say anything; deflated bytes become no more than that.
    most = Path(path).stat().st_size * (1 if info.compress_type == zipfile.ZIP_STORED else 1032)
    return min(info.file_size, most)


@dataclass(frozen=True)
class NpyColumn:
    """Values ``first``, ``first + step``, … of an array: one column of an edge list."""

    part: NpyPart
    first: int
    step: int
    length: int


def are_rows(shape: tuple[int, ...], path: str | None, advice: str) -> bool:
    """Whether edges are the rows of an array, (m, 2) or (m, 3), or its columns, (2, m).

    Other shapes are refused, and those that are both, with the ``advice``.
    """
    if shape in {(2, 2), (2, 3)}:
        raise InputError(
            f"an array of shape {shape} may hold edges in its rows or in its columns",
            path=path,
            advice=advice,
        )
    if len(shape) != 2 or (shape[1] not in {2, 3} and shape[0] != 2):
        expected = "expected (m, 2), (m, 3) or (2, m)"
        raise InputError(f"the array has shape {shape}", path=path, advice=expected)
    return shape[1] in {2, 3}


def columns_of(part: NpyPart) -> list[NpyColumn]:
    """Columns of an array of edges, as of `are_rows`."""
    advice = "give vectors source, target[, weight]: numpy.savez(file, source=…, target=…)"
    in_rows = are_rows(part.shape, part.path, advice)
    length, count = part.shape if in_rows else part.shape[::-1]
    if part.fortran == in_rows:
        return [NpyColumn(part, column * length, 1, length) for column in range(count)]
    return [NpyColumn(part, column, count, length) for column in range(count)]


def npz_columns(path: str) -> list[NpyColumn]:
    """Columns of an ``.npz``: arrays by their usual names, or one two-dimensional array."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist()}
    except _UNREADABLE as error:
        problem = f"cannot be read as .npz: {error}"
        raise InputError(problem, path=path, advice="write it with numpy.savez") from error
    if not any(name.endswith(".npy") for name in names.values()):
        advice = "unpack it first; of a workbook save the sheet as .csv"
        raise InputError("is an archive without NumPy arrays", path=path, advice=advice)
    usual = SOURCE_NAMES, TARGET_NAMES, ("weight", "weights", "data", "w")
    found = [next((names[n] for n in each if n in names), None) for each in usual]
    if found[0] is None or found[1] is None:
        if len(names) == 1:
            return columns_of(read_header(path, next(iter(names.values()))))
        raise InputError(
            "no arrays source and target; there are " + ", ".join(sorted(names)),
            path=path,
            advice="save them as numpy.savez(file, source=…, target=…, weight=…)",
        )
    parts = [read_header(path, name) for name in found if name is not None]
    if any(part.shape != parts[0].shape or len(part.shape) != 1 for part in parts):
        raise InputError(
            "the arrays have shapes " + ", ".join(str(part.shape) for part in parts),
            path=path,
            advice="source, target and weight are vectors of one length",
        )
    return [NpyColumn(part, 0, 1, part.shape[0]) for part in parts]


def read_column(column: NpyColumn, start: int, stop: int, block: int) -> Iterator[AnyArray]:
    """Yield entries ``start`` to ``stop`` of a column in pieces of ``block``."""
    part, size = column.part, column.part.dtype.itemsize
    with part.open() as file:
        for low in range(start, stop, block):
            count = min(block, stop - low)
            values = np.empty((count - 1) * column.step + 1, dtype=part.dtype)
            try:
                file.seek(part.start + (column.first + low * column.step) * size)
                got = file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]
            except _UNREADABLE as error:
                raise InputError(f"cannot be read: {error}", path=part.path) from error
            if got < values.nbytes:
                raise InputError(
                    f"the data ends after row {low:,}", path=part.path, advice="fetch it again"
                )
            yield np.ascontiguousarray(values[:: column.step])


def read_vector(part: NpyPart) -> AnyArray:
    """All of an array of one dimension."""
    length = part.shape[0]
    pieces = list(read_column(NpyColumn(part, 0, 1, length), 0, length, max(1, length)))
    return pieces[0] if pieces else np.empty(0, part.dtype)
