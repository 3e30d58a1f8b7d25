"""The columns that the tokenizers fill, and the blocks cut from them."""

from __future__ import annotations

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.types import AnyArray, EdgeBlock

SLOW_ROWS = 4096

_WEIGHT_MODES = {
    None: decimals.WEIGHT_EITHER,
    "int64": decimals.WEIGHT_INTEGER,
    "float32": decimals.WEIGHT_FLOAT,
    "float64": decimals.WEIGHT_FLOAT,
}


def weight_mode(weighted: bool, weight_type: str | None) -> int:
    """How the kernels read the weights."""
    return _WEIGHT_MODES[weight_type] if weighted else decimals.WEIGHT_NONE


class FilledColumns:
    """Columns of ``rows`` edges in host memory, filled again and again."""

    def __init__(self, rows: int, *, weighted: bool, weight_type: str | None) -> None:
        self._mode, self._weight_type = weight_mode(weighted, weight_type), weight_type
        integers = self._mode in {decimals.WEIGHT_INTEGER, decimals.WEIGHT_EITHER}
        doubles = self._mode in {decimals.WEIGHT_FLOAT, decimals.WEIGHT_EITHER}
        self.source = np.empty(rows, dtype=np.int64)
        self.target = np.empty(rows, dtype=np.int64)
        self.integers = np.empty(rows if integers else 1, dtype=np.int64)
        self.doubles = np.empty(rows if doubles else 1, dtype=np.float64)
        self.slow = np.empty((SLOW_ROWS if doubles else 1, 3), dtype=np.int64)

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        """What the kernels fill, in the order of their arguments."""
        return self.source, self.target, self.integers, self.doubles, self.slow

    def round_slow(self, text: bytearray, slow_rows: int) -> int | None:
        """Let Python round the doubles that the kernel left open.

        Returns the byte in ``text`` of the first number that overflows, None if none does.
        """
        for row, start, stop in self.slow[:slow_rows].tolist():
            value = float(text[start:stop])
            if not np.isfinite(value):
                return int(start)
            self.doubles[row] = value
        return None

    def block(self, rows: int, all_integer: bool, path: str) -> EdgeBlock:
        """The first ``rows`` edges, copied; InputError if a weight overflows float32."""
        weight: AnyArray | None = None
        if self._mode == decimals.WEIGHT_INTEGER or (
            self._mode == decimals.WEIGHT_EITHER and all_integer
        ):
            weight = self.integers[:rows].copy()
        elif self._mode != decimals.WEIGHT_NONE:
            doubles = self.doubles[:rows]
            single = self._weight_type == "float32"
            weight = _to_float32(doubles, path) if single else doubles.copy()
        return EdgeBlock(self.source[:rows].copy(), self.target[:rows].copy(), weight)


def _to_float32(doubles: AnyArray, path: str) -> AnyArray:
    with np.errstate(over="ignore"):
        singles = doubles.astype(np.float32)
    if not np.isfinite(singles).all():
        row = int(np.flatnonzero(~np.isfinite(singles))[0])
        raise InputError(
            f"the weight {float(doubles[row])!r} is beyond float32",
            path=path,
            advice="use weight type float64",
        )
    return singles
