"""Searches from many sources, CPU."""
