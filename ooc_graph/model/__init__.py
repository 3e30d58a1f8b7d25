"""Facts and values that plans are made of."""
