"""Searches whose rows are in pinned host memory, CUDA."""
