"""Bytes of others, mutated without end: each reader reads them, or refuses them in one line."""
