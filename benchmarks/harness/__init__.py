"""What the benchmarks share, so that each of them is a comparison and nothing else."""
