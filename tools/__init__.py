"""Programs for this repository: installation, documentation."""
