"""BFS and SSSP over edges without rows, CPU."""
