"""Graph500's rules for BFS and SSSP, and those of components, against the edges as read."""

from ooc_graph.validate.answers import BfsAnswer, SsspAnswer
from ooc_graph.validate.bfs import BfsValidator, validate_bfs
from ooc_graph.validate.components import (
    ComponentsAnswer,
    ComponentsValidator,
    ComponentsVerdict,
    validate_components,
)
from ooc_graph.validate.sssp import SsspValidator, validate_sssp
from ooc_graph.validate.verdict import Verdict
from ooc_graph.validate.vertices import VertexIndex

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
    "validate_bfs",
    "validate_components",
    "validate_sssp",
]
