"""SSSP, CUDA."""
