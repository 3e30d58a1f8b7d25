"""Answers that still lie in an engine's arrays, and are completed before these are used again."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

from ooc_graph.model.engine import Engine, RankEngine

# By the engine's `id`. Nobody needs to complete an answer that is gone.
_lent: dict[int, WeakMethod[Callable[[], None]]] = {}


def lend(engine: Engine, settle: Callable[[], None]) -> None:
    """Let an answer lie in the arrays of an engine that the caller has to itself.

    ``settle``, a method of the answer, is called before the engine is given out again or released.
    """
    _lent[id(engine)] = WeakMethod(settle)


def take_back(engine: Engine | RankEngine) -> None:
    """Have the answer completed that lies in an engine's arrays, if there is one."""
    lent = _lent.get(id(engine))
    settle = None if lent is None else lent()
    if settle is not None:
        settle()
    # Not before: if this is interrupted, the answer is still to be completed.
    _lent.pop(id(engine), None)
