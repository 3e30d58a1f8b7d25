"""Columns of rows in host memory, given by units as a disk gives them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np

from ooc_graph.types import AnyArray, IntArray


class RamUnits:
    """Columns in host memory as a tier: what a disk would give, from arrays."""

    def __init__(self, columns: Sequence[AnyArray], unit_bytes: int, batch_units: int) -> None:
        self.unit_bytes, self.batch_units = unit_bytes, batch_units
        self.dtypes = tuple(column.dtype for column in columns)
        self.units = 0
        """Units given."""
        self._columns = [_in_units(column, unit_bytes) for column in columns]

    def stage(
        self, batches: Iterator[Sequence[IntArray]]
    ) -> Generator[tuple[AnyArray, ...], None, None]:
        """Give batch after batch of units."""
        for batch in batches:
            self.units += sum(map(len, batch))
            yield tuple(
                column[units].reshape(-1)
                for column, units in zip(self._columns, batch, strict=True)
            )


def _in_units(column: AnyArray, unit_bytes: int) -> AnyArray:
    """Whole units, the last one filled up with zeros."""
    each = unit_bytes // column.dtype.itemsize
    padded = np.zeros(-(-len(column) // each) * each, column.dtype)
    padded[: len(column)] = column
    return padded.reshape(-1, each)
