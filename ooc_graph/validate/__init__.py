"""Graph500's rules for BFS and SSSP, and those of components and PageRank, against the edges."""

from ooc_graph.validate.answers import BfsAnswer, PagerankAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate.components import ComponentsAnswer, ComponentsValidator, ComponentsVerdict
from ooc_graph.validate.pagerank import PagerankValidator, PagerankVerdict
from ooc_graph.validate.trees import BfsValidator, SsspValidator
from ooc_graph.validate.wording import Verdict

__all__ = [
    "BfsAnswer",
    "BfsValidator",
    "ComponentsAnswer",
    "ComponentsValidator",
    "ComponentsVerdict",
    "PagerankAnswer",
    "PagerankValidator",
    "PagerankVerdict",
    "SsspAnswer",
    "SsspValidator",
    "Verdict",
    "VertexIndex",
]
