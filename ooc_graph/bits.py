"""Bits of a word of uint64: instructions that numba has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _counting(name: str) -> Callable[..., Any]:
    def typing(typing_context: Any, word: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            if name == "ctpop":
                return builder.ctpop(args[0])
            return getattr(builder, name)(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), generate

    return typing


count_bits: Any = intrinsic(_counting("ctpop"))
"""Number of set bits of a uint64, as int64."""
lowest_bit: Any = intrinsic(_counting("cttz"))
"""Position of the lowest set bit of a uint64 that is not zero, as int64."""
zeros_above: Any = intrinsic(_counting("ctlz"))
"""Number of zeros above the highest set bit of a uint64 that is not zero, as int64."""
