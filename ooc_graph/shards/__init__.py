"""Edges to degrees, renumbering, runs, merged rows, and a committed store; and back into memory."""
