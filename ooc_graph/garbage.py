"""When Python looks for garbage: not while much is made that stays, and less often at the end."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@atexit.register
def _end() -> None:
    """Look at what is new alone: Python looks at all twice more when it forgets the modules."""
    if gc.isenabled():
        gc.collect(1)
        gc.disable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Context in which no garbage is looked for.

    Python would do so whenever some is allocated, and look at all that is new several times; and
    once more behind this, if what is there were not made the oldest generation.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                # Both together do that.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
