"""BFS, CPU."""
