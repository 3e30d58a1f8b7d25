"""The one way in which the validator's loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

from ooc_graph import kernel_cache

Function = TypeVar("Function", bound=Callable[..., Any])


__all__ = ["compiled", "kernel_cache"]


def compiled(function: Function) -> Function:
    """Compile to machine code: serial, cached on disk, without the interpreter lock."""
    return cast(Function, njit(cache=True, nogil=True)(function))
