"""How this package's kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import intrinsic

from ooc_graph import kernel_cache


def _compiled(function: Callable[..., object], **options: Any) -> Any:
    jit: Any = njit
    return jit(**{"nogil": True, "_nrt": False, "no_cfunc_wrapper": True} | options)(function)


def kernel(function: Callable[..., object]) -> Any:
    """Compile on first call for each signature; cached on disk; runs without the GIL.

    Without reference counts, too: numba counts the arrays in a named tuple up and down at every
    access, with atomics, which made a pass over the rows five times slower. So a kernel must not
    allocate; numba refuses to compile one that does.
    """
    return kernel_cache.kept(_compiled(function))


def allocating_kernel(function: Callable[..., object]) -> Any:
    """As a `kernel`, with reference counts: for the few that allocate their scratch memory."""
    return kernel_cache.kept(_compiled(function, _nrt=True))


def subroutine(function: Callable[..., object]) -> Any:
    """Compile as part of the kernels that call it; Python cannot call it.

    What Python could call it through (a wrapper that takes each array out of its object) and an
    entry in the cache of its own would take as long to compile as the function itself.
    """
    return _compiled(function, no_cpython_wrapper=True)


def inlined(function: Callable[..., object]) -> Any:
    """As a `subroutine`, its body put in place of the call before types are known.

    So a caller's constant arguments are constants in it.
    """
    return _compiled(function, inline="always")


def instruction(typing: Callable[..., object]) -> Any:
    """Function for kernels that generates its own LLVM instructions."""
    return intrinsic(typing)
