"""What kind of value each attribute of a graph's store has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ooc_graph.layout.names import HUB, IN, LIGHT, OUT

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("vertices", "rows", "edges", "self_loops", "shards"), (int,)),
    **dict.fromkeys(("directed", "weighted"), (bool,)),
    "weight_dtype": (str, type(None)),
    "lightest": (int, float, type(None)),
    "first_id": (int, type(None)),
    "arcs": (dict,),
    "row_orders": (list,),
}
_WEIGHTS = ("int32", "int64", "float32", "float64")


def require_kinds(attributes: Mapping[str, Any]) -> None:
    """KeyError, TypeError: an attribute is missing, or is nothing that a build writes."""
    for name, kinds in _KINDS.items():
        # True is an integer, too.
        if type(attributes[name]) not in kinds:
            raise TypeError(name)
    sides, arcs = {OUT, IN} if attributes["directed"] else {OUT}, attributes["arcs"]
    if set(arcs) != sides or {type(count) for count in arcs.values()} != {int}:
        raise TypeError("arcs")
    if not attributes["row_orders"] or set(attributes["row_orders"]) - {HUB, LIGHT}:
        raise TypeError("row_orders")
    if attributes["weight_dtype"] not in (_WEIGHTS if attributes["weighted"] else (None,)):
        raise TypeError("weight_dtype")
