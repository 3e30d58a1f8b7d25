"""Strategies of a CUDA device."""
