"""Searches from many sources."""
