"""Kernels of CUDA devices: CUDA C++ beside the Python that launches it."""
