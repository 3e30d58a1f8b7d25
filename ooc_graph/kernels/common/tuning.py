"""Constants that say when a search does what: tuned, and no part of any contract.

Each names the benchmark to run before and after it is changed. ``benchmarks/tuning.py`` sets any of
them to several values in turn, and times what it decides. Answers do not depend on them.
"""

from __future__ import annotations

# Direction of a BFS. benchmarks/peers.py: Graph500's graphs and the social ones.
PULL_ABOVE = 16
"""Pull if the frontier holds more than one in this many of the arcs not yet visited; of these and
the vertices together if the frontier is narrow. A larger number pulls earlier."""
PUSH_BELOW = 24
"""A frontier is narrow if it holds fewer than one in this many of the vertices: then push again."""

# BFS from a list, on one thread. benchmarks/peers.py: the road networks.
SHORT_ROW = 32
"""Most arcs of a row in a graph that is searched from a list while its frontier is small."""
LIST_ARCS = 1 << 16
"""A frontier with more arcs than this is for all threads together."""
TEAM_ARCS = 1 << 18
"""A graph with fewer rows and arcs than this is searched before a second thread is awake."""
FEW_LONGER = 8
"""Fixed slots pay if at most one in this many of the rows is too long for one."""

# Phases of SSSP. benchmarks/phases.py.
ENOUGH_PUSHED = 1000
"""Pull once one in this many of the arcs has been examined by pushing."""

# Pulling or near-far. benchmarks/near_far.py.
HEAD_SHARE = 0.1
"""Pull only where the first 1 % of the rows hold this share of the tuples."""
WEIGHT_SPREAD = 16
"""Pull only where a hub's middle arc weighs this many times its lightest."""
FIRST_STEP = 2
"""First step of the bound, in lightest arcs of a hub."""

# Many sources. benchmarks/johnson.py: kronecker and random.
BATCH_SIZE = 64
"""Sources of a batch; a word has one bit for each."""
PRUNED_FROM = 4 * BATCH_SIZE
"""So many sources pay for the search from landmarks that finds arcs nobody needs."""
FIRST_SPAN = 8.0
"""First guess of the span, in heaviest arcs."""
# benchmarks/johnson.py: bfs.
WORTH = 12
"""Sources to be found in a visit: it costs so many times one of a single search."""
FEW_SOURCES = 32
"""A batch of fewer sources says nothing of whether batches are worth it."""
FEW_AT_HUBS = 128
"""Fewer sources a thread are searched from one by one if hubs are large."""
