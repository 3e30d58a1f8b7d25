"""Columns that are numbers already: checked and brought to the types of an edge block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.types import AnyArray, EdgeBlock, IntArray

INT64_MAX = np.iinfo(np.int64).max


def checked_ids(values: AnyArray, what: str, path: str | None, row: int) -> IntArray:
    """One-dimensional ids in host memory as int64; ``row`` is that of the first of them."""
    if values.dtype.kind not in "iu":
        raise InputError(
            f"{what} ids have dtype {values.dtype}", path=path, advice="ids are integers"
        )
    wrong = values < 0 if values.dtype.kind == "i" else values > np.uint64(INT64_MAX)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"{what} id {int(values[at])} in row {row + at:,}",
            path=path,
            advice="ids are integers from 0 to 2^63-1",
        )
    return np.ascontiguousarray(values, dtype=np.int64)


def weight_dtype_of(given: np.dtype[Any], asked: np.dtype[Any] | None) -> np.dtype[Any]:
    """Type of the weights in blocks: as asked, else int64, float32 or float64."""
    if given.kind not in "iuf":
        raise InputError(f"weights have dtype {given}", advice="weights are integers or floats")
    if asked is not None:
        return asked
    if given.kind in "iu":
        return np.dtype(np.int64)
    return np.dtype(np.float32 if given.itemsize <= 4 else np.float64)


def checked_weights(values: AnyArray, dtype: np.dtype[Any], path: str | None, row: int) -> AnyArray:
    """Weights as ``dtype``; InputError if one is not finite, or does not fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = dtype.kind == "i"
        wrong = _not_integral(values) if exact else ~np.isfinite(values.astype(dtype))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"weight {values[at]!s} in row {row + at:,} is not a finite {dtype}",
            path=path,
            advice="remove the edge, or choose another weight type",
        )
    return np.ascontiguousarray(values, dtype=dtype)


def _not_integral(values: AnyArray) -> AnyArray:
    if values.dtype.kind == "i":
        return np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "u":
        return values > np.uint64(INT64_MAX)
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    wrong: AnyArray = ~(inside & (values == np.floor(values)))
    return wrong


def checked_block(
    columns: Sequence[AnyArray], weight_dtype: np.dtype[Any] | None, path: str | None, row: int
) -> EdgeBlock:
    """A block of edges from columns as they were read; the third is the weights, if wanted."""
    weight = None if weight_dtype is None else checked_weights(columns[2], weight_dtype, path, row)
    source = checked_ids(columns[0], "source", path, row)
    return EdgeBlock(source, checked_ids(columns[1], "target", path, row), weight)
