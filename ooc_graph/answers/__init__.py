"""Answers of searches: in original ids, in memory or in a committed store; and their export."""
