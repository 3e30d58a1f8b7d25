"""The one way in which the validator's loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

from ooc_graph import kernel_cache

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile to machine code: serial, cached on disk, without the interpreter lock.

    Without reference counts, too, so a compiled loop must not allocate.
    """
    jit: Any = njit
    return cast(Function, kernel_cache.kept(jit(**_OPTIONS)(function)))


def subroutine(function: Function) -> Function:
    """Compile as part of the loops that call it; Python cannot call it."""
    jit: Any = njit
    return cast(Function, jit(no_cpython_wrapper=True, **_OPTIONS)(function))
