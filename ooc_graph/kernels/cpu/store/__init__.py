"""Searches whose rows are in a store, CPU."""
