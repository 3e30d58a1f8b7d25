"""Graph500's benchmark: build, search, validate, report."""
