"""Where edges come from: generators, files, arrays; all read in blocks."""

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.edges.opening import FORMATS, open_source

__all__ = ["FORMATS", "EdgeSource", "Unit", "open_source"]
