"""Compilation, memory and launches, CUDA."""
