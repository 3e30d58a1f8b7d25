"""Tiers for rows that stay outside the memory of a rank; empty so far."""
