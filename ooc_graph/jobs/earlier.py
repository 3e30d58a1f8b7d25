"""The answers that a diff compares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ooc_graph as og
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import MANIFEST


def answers_compared(
    stage: str, earlier: Path, run: Path, answer: str, note: Callable[[str], object]
) -> tuple[og.Result | None, og.Result]:
    """An earlier answer, if there is one, and the one at a path in the folder of a run.

    ``earlier`` is that answer, or the folder of the run that has it. A ``note`` says if it has not.
    """
    now = run / answer
    if not (earlier / MANIFEST).is_file():
        earlier /= answer
    if not (earlier / MANIFEST).is_file():
        note(f"{stage}: no earlier answer, {earlier} is not there")
        return None, og.Result.open(now)
    if earlier.samefile(now):
        raise UsageError(f"{stage}: against is this run itself; give the folder of an earlier run")
    return og.Result.open(earlier), og.Result.open(now)
