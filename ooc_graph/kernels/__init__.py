"""Primitives per device: numba functions, a file for each, and what binds them to a device."""

from ooc_graph import kernel_cache

__all__ = ["kernel_cache"]
