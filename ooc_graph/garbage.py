"""When Python looks for garbage: not while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Context in which no garbage is looked for.

    Python would do so whenever some is allocated, and look at all that is new several times.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """As `uncollected`, for what modules are made of: hardly any of it is ever garbage."""
    with uncollected():
        yield
        if not gc.get_freeze_count():
            # Both together make all that is there the oldest generation, unlooked at.
            gc.freeze()
            gc.unfreeze()
