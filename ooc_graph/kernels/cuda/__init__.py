"""Kernels of CUDA devices: CUDA C++ and the Python that launches it."""
