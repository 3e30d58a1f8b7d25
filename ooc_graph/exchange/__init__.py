"""Ranks tell each other things: within a process, or worker to worker over Dask."""
