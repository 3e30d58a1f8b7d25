"""Tiers for rows that stay outside the memory of a rank, and what of them is kept in it."""
