"""Primitives per device: numba functions, a file for each, and what binds them to a device."""
