"""Rows in a store, as the host fetches them for searches on any device."""
