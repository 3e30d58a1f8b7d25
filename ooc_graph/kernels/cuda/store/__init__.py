"""Searches whose rows are in a store, CUDA."""
