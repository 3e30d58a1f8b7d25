"""What the caller may say about a source of edges, and which columns of a table follow from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ooc_graph.edges.lines import is_count
from ooc_graph.errors import InputError, UsageError
from ooc_graph.types import FileFormat, WeightType

Column = str | int

WEIGHT_TYPES = {
    "int": "int64",
    "int64": "int64",
    "float": "float64",
    "float32": "float32",
    "float64": "float64",
}
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": "", "whitespace": "", " ": "", "comma": ","}


class EdgeOptions(TypedDict, total=False):
    """What `open_source` takes besides the edges."""

    format: FileFormat | None
    directed: bool | None
    source: Column | None
    target: Column | None
    weight: Column | bool | None
    columns: Sequence[Column] | None
    delimiter: str | None
    header: bool | None
    weight_type: WeightType | None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of ``open_source``; None always means: what the input says."""

    directed: bool | None = None
    source: Column | None = None
    target: Column | None = None
    weight: Column | bool | None = None
    columns: Sequence[Column] | None = None
    delimiter: str | None = None
    header: bool | None = None
    weight_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that no option has, and bring the others to one form."""
        weight = self.weight
        ends = (self.source, self.target)
        if ends != (None, None) and (self.columns is not None or None in ends):
            raise UsageError("source and target: name both columns, or neither")
        columns = self.columns if None in ends else ends
        object.__setattr__(self, "columns", columns)
        if columns is not None and (
            isinstance(columns, str) or not hasattr(columns, "__len__") or len(columns) != 2
        ):
            raise UsageError("columns: name two columns, source and target")
        if not (weight is None or isinstance(weight, (str, int, np.bool_, np.integer))):
            raise UsageError(
                "weight: give the name or the position of a column, or False; weights in an array "
                "come with the edges, (source, target, weight)"
            )
        if self.weight_type is not None and self.weight_type not in list(WEIGHT_TYPES):
            raise UsageError(f"weight type {self.weight_type!r}: use int, float32 or float64")
        object.__setattr__(self, "delimiter", _mark_of(self.delimiter))
        # Python's own truth values for NumPy's: JSON has them, and `is` finds them.
        for name in ("directed", "header"):
            if (value := getattr(self, name)) is None:
                continue
            # A word such as "no" would count as true.
            if not isinstance(value, (int, np.bool_)):
                raise UsageError(f"{name} is {value!r}: give True or False")
            object.__setattr__(self, name, bool(value))
        if isinstance(weight, np.bool_):
            object.__setattr__(self, "weight", bool(weight))

    def is_directed(self, otherwise: bool = False) -> bool:
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


def _mark_of(delimiter: object) -> str | None:
    """What a delimiter stands for; runs of blanks are an empty word. UsageError: it is none."""
    if delimiter is None:
        return None
    mark = _DELIMITERS.get(delimiter, delimiter) if isinstance(delimiter, str) else None
    is_mark = mark is not None and len(mark) == 1 and mark.isascii() and not mark.isalnum()
    if mark != "" and (not is_mark or str(mark) in '"#%+-.\r\n\0'):
        raise UsageError(f"delimiter {delimiter!r}: one ASCII mark, 'tab' or 'space'")
    return mark


SOURCE_NAMES = ("source", "src", "from", "u", "fromnodeid", "source_id", "row")
TARGET_NAMES = ("target", "dst", "dest", "destination", "to", "v", "tonodeid", "target_id", "col")
WEIGHT_NAMES = ("weight", "weights", "w", "wgt", "distance", "dist", "cost", "length", "value")


@dataclass(frozen=True)
class ChosenColumns:
    """Positions from 0; weight None: unweighted."""

    source: int
    target: int
    weight: int | None


def position_of(column: Column, names: Sequence[str] | None, fields: int, where: str) -> int:
    """Position of a column that the caller named; the error lists the columns there are."""
    if isinstance(column, str) and names is not None and column in names:
        return list(names).index(column)
    if isinstance(column, int) or is_count(column.encode()):
        if 0 <= int(column) < fields:
            return int(column)
        raise UsageError(f"{where}: no column {column}, there are {fields} (counted from 0)")
    known = "the columns have no names" if names is None else "there are " + ", ".join(names)
    raise UsageError(f"{where}: no column {column!r}; {known}")


def choose_columns(
    options: ReadOptions,
    names: Sequence[str] | None,
    fields: int,
    where: str,
    *,
    third_is_weight: bool = False,
) -> ChosenColumns:
    """Columns that the caller chose, else those with usual names, else the first ones.

    The first two of a table with names are taken only if nothing else is likely: it has just two,
    or a weight as its third, or names that differ in their digits only (``Person.id`` twice).
    UsageError: a chosen column is not there, or is to serve twice; InputError: the names do not
    tell. ``third_is_weight`` is of three unnamed columns.
    """
    if options.columns is not None:
        source, target = (position_of(name, names, fields, where) for name in options.columns)
    else:
        source, target = (0, 1) if names is None else _by_names(options, names, where)
    weight = None
    if options.weight_column is not None:
        weight = position_of(options.weight_column, names, fields, where)
    elif not options.no_weight:
        unnamed = 2 if third_is_weight and fields == 3 and names is None else None
        weight = _usual(WEIGHT_NAMES, names) if names is not None else unnamed
        if weight in {source, target}:
            weight = None
    if options.weight is True and weight is None:
        raise UsageError(f"{where}: no weight column; name it")
    if len({source, target, weight}) < 3:
        raise UsageError(f"{where}: source, target and weight must be different columns")
    return ChosenColumns(source, target, weight)


def _by_names(options: ReadOptions, names: Sequence[str], where: str) -> tuple[int, int]:
    """Positions of source and target in a table with names."""
    source, target = _usual(SOURCE_NAMES, names), _usual(TARGET_NAMES, names)
    if source is not None and target is not None:
        return source, target
    neither = source is None and target is None
    if neither and (_third_is_weight(options, names) or _first_are_alike(names)):
        return 0, 1
    known = "neither is known" if neither else f"only {names[source or target or 0]!r} is known"
    raise InputError(
        f"which columns are source and target? Of {', '.join(names)} {known}",
        path=where,
        advice="name them with --columns SOURCE,TARGET",
    )


def _third_is_weight(options: ReadOptions, names: Sequence[str]) -> bool:
    """Whether there are two columns, and nothing else but perhaps a weight after them."""
    if len(names) == 2:
        return True
    chosen = options.weight_column
    is_usual = _usual(WEIGHT_NAMES, names) == 2 or (chosen is not None and str(chosen) == "2")
    return len(names) == 3 and (is_usual or chosen == names[2])


def _first_are_alike(names: Sequence[str]) -> bool:
    """Whether the first two names, and no others, differ in their digits only.

    LDBC's tables of relations call both ends alike; pandas numbers equal names.
    """
    stems = [re.sub(r"\.?\d+", "", name).lower() for name in names]
    return len(stems) > 1 and stems[0] == stems[1] and stems.count(stems[0]) == 2


def _usual(usual: Sequence[str], names: Sequence[str] | None) -> int | None:
    lower = [name.lower().lstrip(":") for name in names or ()]
    return next((lower.index(name) for name in usual if name in lower), None)
