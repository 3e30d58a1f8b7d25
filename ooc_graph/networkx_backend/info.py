"""What networkx asks of a backend when it is imported: names and notes, without imports."""

from __future__ import annotations

from typing import Any

NAME = "ooc_graph"
"""The backend's name; graphs have it as ``__networkx_backend__``."""

_ANY_PATH = "Of several shortest paths another one may be found."
_ROUNDING = "Sums of floats may differ in the last digits."
_SIGNED = (
    "Negative weights that are no integers are left to networkx where distances are asked for."
)
_NEAR_ZERO = (
    "If weights are negative and no integers, sums are rounded in another order: whether a cycle or"
    " a path whose sum is within rounding is the lighter may be decided otherwise."
)

_FIXED_POINT = "Scores are rounded to about 1e-18 each; in networkx, to 16 digits."
_ANY_CENTER = "A node that is equally near to several centers may be another one's."

FUNCTIONS = {
    "all_pairs_bellman_ford_path": f"{_ANY_PATH} {_NEAR_ZERO}",
    "all_pairs_bellman_ford_path_length": _SIGNED,
    "all_pairs_dijkstra": _ANY_PATH,
    "all_pairs_dijkstra_path": _ANY_PATH,
    "all_pairs_dijkstra_path_length": "",
    "all_pairs_shortest_path": _ANY_PATH,
    "all_pairs_shortest_path_length": "",
    "average_shortest_path_length": _ROUNDING,
    "barycenter": "Without ``sp`` and ``attr``.",
    "bellman_ford_path": f"{_ANY_PATH} {_SIGNED}",
    "bellman_ford_path_length": _SIGNED,
    "bidirectional_dijkstra": f"{_ANY_PATH} {_ROUNDING}",
    "bidirectional_shortest_path": _ANY_PATH,
    "center": "Without ``e`` and ``usebounds``.",
    "closeness_centrality": _ROUNDING,
    "connected_components": "",
    "descendants_at_distance": "",
    "diameter": "Without ``e`` and ``usebounds``.",
    "dijkstra_path": _ANY_PATH,
    "dijkstra_path_length": "",
    "eccentricity": "Without ``sp``.",
    "floyd_warshall": _ROUNDING,
    "floyd_warshall_numpy": _ROUNDING,
    "floyd_warshall_predecessor_and_distance": f"{_ANY_PATH} {_ROUNDING}",
    "goldberg_radzik": f"{_ANY_PATH} {_SIGNED}",
    "harmonic_centrality": _ROUNDING,
    "has_path": "",
    "is_connected": "",
    "is_weakly_connected": "",
    "johnson": f"{_ANY_PATH} {_NEAR_ZERO}",
    "multi_source_dijkstra": _ANY_PATH,
    "multi_source_dijkstra_path": _ANY_PATH,
    "multi_source_dijkstra_path_length": "",
    "negative_edge_cycle": "Negative weights that are no integers are left to networkx.",
    "node_connected_component": "",
    "number_connected_components": "",
    "number_weakly_connected_components": "",
    "pagerank": f"Without ``nstart``, self-loops and parallel edges. {_FIXED_POINT}",
    "periphery": "Without ``e`` and ``usebounds``.",
    "radius": "Without ``e`` and ``usebounds``.",
    "shortest_path": _ANY_PATH,
    "shortest_path_length": "",
    "single_source_bellman_ford": f"{_ANY_PATH} {_SIGNED}",
    "single_source_bellman_ford_path": f"{_ANY_PATH} {_NEAR_ZERO}",
    "single_source_bellman_ford_path_length": _SIGNED,
    "single_source_dijkstra": _ANY_PATH,
    "single_source_dijkstra_path": _ANY_PATH,
    "single_source_dijkstra_path_length": "",
    "single_source_shortest_path": _ANY_PATH,
    "single_source_shortest_path_length": "",
    "single_target_shortest_path": _ANY_PATH,
    "single_target_shortest_path_length": "",
    "voronoi_cells": _ANY_CENTER,
    "weakly_connected_components": "",
}
"""Functions of networkx that the backend has, each with what a caller should know of it."""


def get_info() -> dict[str, Any]:
    """The backend, as networkx wants it described."""
    return {
        "backend_name": NAME,
        "project": "ooc-graph",
        "package": "ooc_graph",
        "short_summary": "Searches by compiled threads, also of graphs bigger than memory.",
        "functions": {name: {"additional_docs": note} for name, note in FUNCTIONS.items()},
    }
