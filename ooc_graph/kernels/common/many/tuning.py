"""Constants of searches from many sources that devices share."""

LANES = 64
"""Sources of a batch; a word has one bit for each."""
PRUNED_FROM = 4 * LANES
"""So many sources pay for the search from landmarks that finds arcs nobody needs."""
WORTH = 12
"""Sources to be found in a visit: it costs so many times one of a single search."""
FIRST_SPAN = 8.0
"""First guess of the span, in heaviest arcs."""
