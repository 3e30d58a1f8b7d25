"""What the caller may say about a source of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": "", "whitespace": "", " ": "", "comma": ","}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of ``open_source``; None always means: what the input says."""

    directed: bool | None = None
    weight: Column | bool | None = None
    columns: Sequence[Column] | None = None
    delimiter: str | None = None
    header: bool | None = None
    weight_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that no option has, and bring the others to one form."""
        columns, weight, delimiter = self.columns, self.weight, self.delimiter
        if columns is not None and (isinstance(columns, str) or len(columns) != 2):
            raise UsageError("columns: name two columns, source and target")
        if not (weight is None or isinstance(weight, (str, int, np.bool_, np.integer))):
            raise UsageError(
                "weight: give the name or the position of a column, or False; weights in an array "
                "come with the edges, (source, target, weight)"
            )
        if self.weight_type is not None and self.weight_type not in WEIGHT_TYPES:
            raise UsageError(f"weight type {self.weight_type!r}: use int, float32 or float64")
        delimiter = None if delimiter is None else _DELIMITERS.get(delimiter, delimiter)
        if delimiter and (
            len(delimiter) != 1 or delimiter in '"#%+-.\r\n\0' or not _is_mark(delimiter)
        ):
            raise UsageError(f"delimiter {delimiter!r}: one ASCII mark, 'tab' or 'space'")
        object.__setattr__(self, "delimiter", delimiter)
        for name in ("directed", "weight", "header"):
            # Python's own truth value for NumPy's: JSON has it, and `is` finds it.
            if isinstance(value := getattr(self, name), np.bool_):
                object.__setattr__(self, name, bool(value))

    def is_directed(self, otherwise: bool = True) -> bool:
        """Whether (u, v) is an arc only; ``otherwise`` if the caller does not say."""
        return otherwise if self.directed is None else self.directed

    @property
    def no_weight(self) -> bool:
        """Whether weights are to be left out."""
        return self.weight is False or self.weight == "none"

    @property
    def needs_weight(self) -> bool:
        """Whether the caller asks for weights, so that there must be some."""
        return self.weight is True or self.weight_column is not None

    @property
    def weight_column(self) -> Column | None:
        """The column that was chosen for the weights, if one was."""
        if self.weight is None or self.no_weight or self.weight is True:
            return None
        return self.weight

    @property
    def column_type(self) -> str | None:
        """NumPy's name of the type that ``weight_type`` asks for."""
        return None if self.weight_type is None else WEIGHT_TYPES[self.weight_type]

    @property
    def weight_dtype(self) -> np.dtype[np.generic] | None:
        """Type that ``weight_type`` asks for."""
        return None if self.column_type is None else np.dtype(self.column_type)


def _is_mark(character: str) -> bool:
    """Whether an ASCII character can stand between numbers."""
    return character.isascii() and not character.isalnum()
