"""Figures of a run: statistics, Graph500's block, records, the HTML page, progress, memory."""
