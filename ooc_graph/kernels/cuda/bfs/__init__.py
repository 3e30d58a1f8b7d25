"""BFS, CUDA."""
