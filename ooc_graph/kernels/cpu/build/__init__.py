"""Reading, generating and sorting edges into rows, CPU."""
