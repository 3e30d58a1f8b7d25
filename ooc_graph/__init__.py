"""Shortest paths on graphs bigger than memory."""

__version__ = "0.1.0"
