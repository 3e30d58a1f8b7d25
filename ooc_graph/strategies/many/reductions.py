"""Which reductions a CUDA device makes itself."""

ON_DEVICE = ("eccentricity", "closeness", "sum")
"""Reductions that a CUDA device makes itself."""
SUMMED = ("closeness", "sum")
"""Those that add distances up."""
BEYOND = 64
"""Sources whose distances leave the device at once if their sums are beyond float64."""
