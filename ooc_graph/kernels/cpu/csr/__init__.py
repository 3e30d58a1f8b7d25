"""Searches on compressed sparse rows as they come: no renumbering, no order, duplicates allowed."""
