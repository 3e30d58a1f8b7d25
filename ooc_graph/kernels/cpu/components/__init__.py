"""Components, CPU."""
