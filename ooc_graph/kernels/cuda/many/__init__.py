"""Searches from many sources, CUDA."""
