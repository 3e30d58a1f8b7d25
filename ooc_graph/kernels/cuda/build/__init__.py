"""Reading, generating and sorting edges into rows, CUDA."""
