"""Defaults that the API, the command and job files share."""

from __future__ import annotations

ALPHA, TOL, MAX_ITER = 0.85, 1e-6, 100
"""Of PageRank: networkx's."""
