"""Strategies of the CPU."""
