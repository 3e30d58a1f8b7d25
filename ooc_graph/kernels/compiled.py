"""How this package's search kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import intrinsic


def kernel(function: Callable[..., object]) -> Any:
    """Compile on first call for each signature; cached on disk; runs without the GIL.

    Without reference counts, too: numba counts the arrays in a named tuple up and down at every
    access, with atomics, which made a pass over the rows five times slower. So a kernel must not
    allocate; numba refuses to compile one that does.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
    return njit(**options)(function)


def instruction(typing: Callable[..., object]) -> Any:
    """Function for kernels that generates its own LLVM instructions."""
    return intrinsic(typing)
