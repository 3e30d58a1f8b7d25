"""Arrays of the caller's that an answer goes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.late import LateColumns
from ooc_graph.errors import UsageError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.types import AnyArray


def require_no_store(into: object, out: Path | None) -> None:
    """Refuse arrays and a store at once."""
    if into is not None and out is not None:
        raise UsageError("into= and out=: give one of them, an array or a store")


def require_array(name: str, into: Any, spec: ArraySpec) -> None:
    """Refuse an array that an answer cannot go to; ``name`` is the caller's."""
    wanted = spec.shape(spec.length)
    # Of its kinds a matrix keeps two dimensions in each row.
    is_array = isinstance(into, np.ndarray) and not isinstance(into, np.matrix)
    if not is_array or into.dtype != spec.dtype or into.shape != wanted:
        found = type(into).__name__
        if is_array:
            found = f"{into.dtype} {into.shape}"
        raise UsageError(f"{name}: give a NumPy array of {spec.dtype} {wanted}, not {found}")
    if not into.flags.carray:
        raise UsageError(
            f"{name}: give an array that is C-contiguous, aligned, and may be written to"
        )


def require_columns(into: Any, specs: Mapping[str, ArraySpec]) -> None:
    """Refuse arrays, by the names of columns, that these cannot go to."""
    if not isinstance(into, Mapping):
        raise UsageError(f"into: give a dictionary of arrays by column, not {type(into).__name__}")
    for name, array in into.items():
        if name not in specs:
            raise UsageError(f"into: there is no column {name!r}: choose {', '.join(specs)}")
        require_array(f"into[{name!r}]", array, specs[name])


def columns_into(
    columns: Mapping[str, AnyArray], into: Mapping[str, AnyArray]
) -> Mapping[str, AnyArray]:
    """The columns, of which some lie in the arrays of the caller now."""
    if isinstance(columns, LateColumns):
        columns.put_into(into)
        return columns
    for name, array in into.items():
        np.copyto(array, columns[name])
    return {**columns, **into}
