"""Graph500's rules for BFS and SSSP, and those of components, against the edges as read."""

from ooc_graph.validate.answers import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate.components import ComponentsAnswer, ComponentsValidator, ComponentsVerdict
from ooc_graph.validate.trees import BfsValidator, SsspValidator
from ooc_graph.validate.wording import Verdict

__all__ = [
    "BfsAnswer",
    "BfsValidator",
    "ComponentsAnswer",
    "ComponentsValidator",
    "ComponentsVerdict",
    "SsspAnswer",
    "SsspValidator",
    "Verdict",
    "VertexIndex",
]
