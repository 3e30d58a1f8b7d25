"""PageRank, CPU."""
