"""Progress of calls from Python: what is noted is logged too, and fallbacks are warned of."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import AbstractContextManager

from ooc_graph.boundary import is_for_command
from ooc_graph.errors import FallbackWarning
from ooc_graph.raised import in_python
from ooc_graph.types import Progress, StageProgress

# A child of "ooc_graph": with no logging configured, notes and fallbacks do not appear on standard
# error besides the warning; what is logged to "ooc_graph" itself does.
LOG = logging.getLogger("ooc_graph.searches")
LOG.addHandler(logging.NullHandler())

# What this process has been warned of.
_warned: set[tuple[str, ...]] = set()


class Reporter:
    """Passes progress on; notes go to the log ``ooc_graph`` as well."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown

    def stage(
        self, name: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[StageProgress]:
        """Begin a stage of ``total`` units; leaving the context ends it."""
        return self._shown.stage(name, total, unit)

    def note(self, text: str) -> None:
        """Show something in one line, and log it."""
        LOG.info(text)
        self._shown.note(text)

    def fell_back(self, reason: tuple[str, ...], text: str) -> None:
        """Log that a call falls back to something slower, and warn once of each reason."""
        LOG.warning(text)
        # Commands, such as those of jobs, show notes.
        if reason not in _warned and not is_for_command():
            _warned.add(reason)
            warnings.warn(in_python(text), FallbackWarning, stacklevel=_level_of_caller())


def note_fallback(progress: Progress, reason: tuple[str, ...], text: str) -> None:
    """Show that a call falls back to something slower; Python's callers are warned too."""
    if not isinstance(progress, Reporter):
        progress.note(text)
        return
    progress._shown.note(text)
    progress.fell_back(reason, text)


def _level_of_caller() -> int:
    """The ``stacklevel`` of `warnings.warn` in the function above for code outside this package."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level
