"""Kernels of the CPU: numba functions, and what runs them on threads."""
