"""How this package's kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import intrinsic

from ooc_graph import kernel_cache
from ooc_graph.kernel_cache import jit, kept

kernel: Callable[..., Any] = kernel_cache.compiled
"""Compile on first call for each signature; cached on disk; runs without the GIL.

Without reference counts, too: numba counts the arrays in a named tuple up and down at every
access, with atomics, which made a pass over the rows five times slower. So a kernel must not
allocate; numba refuses to compile one that does.
"""
subroutine: Callable[..., Any] = kernel_cache.subroutine
"""Compile as part of the kernels that call it; Python cannot call it.

What Python could call it through (a wrapper that takes each array out of its object) and an entry
in the cache of its own would take as long to compile as the function itself.
"""
small_part: Callable[..., Any] = kernel_cache.small_part
"""As a `subroutine`, always put in place of the call.

Else seven words for each array of a named tuple are passed, which takes longer than to scan a row.
"""
instruction: Callable[..., Any] = intrinsic
"""Function for kernels that generates its own LLVM instructions."""
varying: Any = np.int64
"""``varying(0)`` begins what changes in a loop: numba would compile for its constant in vain."""


def allocating_kernel(function: Callable[..., object]) -> Any:
    """As a `kernel`, with reference counts: for the few that allocate their scratch memory."""
    return kept(jit(_nrt=True)(function))


def inlined(function: Callable[..., object]) -> Any:
    """As a `subroutine`, its body put in place of the call before types are known.

    So a caller's constant arguments are constants in it.
    """
    return jit(inline="always")(function)
