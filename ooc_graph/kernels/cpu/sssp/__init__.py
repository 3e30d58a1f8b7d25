"""SSSP, CPU."""
