"""When Python looks for garbage: not while much is made that stays, and less often at the end."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

_SHARE, _MORE, _LATEST_S = 50, 1.01, 300.0
_next_s = 0.0
_blocks_left = 0


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


def collect_sparingly() -> None:
    """Collect garbage if much was made since the last time, or minutes have passed.

    In no more than a fiftieth of the time. For processes in which Python rarely looks through all
    objects, since it has many that stay.
    """
    global _next_s, _blocks_left  # noqa: PLW0603 -- of the process, as its garbage is
    begin, blocks = monotonic(), sys.getallocatedblocks()
    _blocks_left = min(_blocks_left, blocks)
    is_due = blocks >= _MORE * _blocks_left or begin >= _next_s + _LATEST_S
    if begin < _next_s or not is_due or not gc.isenabled():
        return
    gc.collect()
    end = monotonic()
    _next_s, _blocks_left = end + _SHARE * (end - begin), sys.getallocatedblocks()
