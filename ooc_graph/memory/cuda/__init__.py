"""What of a graph a CUDA device holds within a budget."""
