"""What the caller may say about a source of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError

Column = str | int

WEIGHT_TYPES = {
    "int": "int64",
    "int64": "int64",
    "float": "float64",
    "float32": "float32",
    "float64": "float64",
}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of ``open_source``; None always means: what the input says.

    Parameters
    ----------
    directed
        Whether (u, v) is an arc from u to v only.
    weight
        Column of the weights, by name or position from 0; False or ``"none"``: no weights.
    columns
        Columns of source and target, by name or position from 0.
    delimiter
        One character; a space means runs of spaces and tabs.
    header
        Whether the first line names the columns.
    weight_type
        ``int``, ``float32`` or ``float64``.
    """

    directed: bool | None = None
    weight: Column | bool | None = None
    columns: tuple[Column, Column] | None = None
    delimiter: str | None = None
    header: bool | None = None
    weight_type: str | None = None

    @property
    def no_weight(self) -> bool:
        """Whether weights are to be left out."""
        return self.weight is False or self.weight == "none"

    @property
    def weight_column(self) -> Column | None:
        """The column that was chosen for the weights, if one was."""
        if self.weight is None or self.no_weight or self.weight is True:
            return None
        return self.weight

    @property
    def weight_dtype(self) -> np.dtype[np.generic] | None:
        """Type that ``weight_type`` asks for."""
        return None if self.weight_type is None else np.dtype(WEIGHT_TYPES[self.weight_type])


def read_options(
    *,
    directed: bool | None,
    weight: Column | bool | None,
    columns: Sequence[Column] | None,
    delimiter: str | None,
    header: bool | None,
    weight_type: str | None,
) -> ReadOptions:
    """Check the options and gather them.

    Raises
    ------
    UsageError
        An option has a value that it cannot have.
    """
    if columns is not None and (isinstance(columns, str) or len(columns) != 2):
        raise UsageError("columns: name two columns, source and target")
    if not (weight is None or isinstance(weight, (str, int, np.bool_, np.integer))):
        raise UsageError(
            "weight: give the name or the position of a column, or False; weights in an array "
            "come with the edges, (source, target, weight)"
        )
    if weight_type is not None and weight_type not in WEIGHT_TYPES:
        raise UsageError(f"weight type {weight_type!r}: use int, float32 or float64")
    names = {"tab": "\t", "\\t": "\t", "space": "", "whitespace": "", " ": "", "comma": ","}
    delimiter = names.get(delimiter, delimiter) if delimiter is not None else None
    if delimiter and (
        len(delimiter) != 1 or delimiter in '"#%+-.\r\n\0' or not _is_mark(delimiter)
    ):
        raise UsageError(f"delimiter {delimiter!r}: one ASCII mark, 'tab' or 'space'")
    return ReadOptions(
        directed=_pythons_own(directed),
        weight=_pythons_own(weight),
        columns=None if columns is None else (columns[0], columns[1]),
        delimiter=delimiter,
        header=_pythons_own(header),
        weight_type=weight_type,
    )


def _pythons_own(value: Any) -> Any:
    """Python's own truth value for NumPy's: JSON has it, and ``is`` finds it."""
    return bool(value) if isinstance(value, np.bool_) else value


def _is_mark(character: str) -> bool:
    """Whether an ASCII character can stand between numbers."""
    return character.isascii() and not character.isalnum()
