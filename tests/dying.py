"""A script that is killed after some of its steps: python -m tests.dying STEPS SCRIPT WORD…"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import ooc_graph as og

SEARCHES = og.bfs, og.sssp
_, STEPS, *sys.argv = sys.argv


steps = count(1)


def step() -> None:
    if next(steps) == int(STEPS):
        os.kill(os.getpid(), signal.SIGKILL)


def dying(function: Callable[..., Any]) -> Callable[..., Any]:
    """As the function, which is a step; but for a search whose answer is not stored."""

    def call(*arguments: Any, **options: Any) -> Any:
        found = function(*arguments, **options)
        if function not in SEARCHES or "out" in options:
            step()
        return found

    return call


def replacing(replace: Callable[..., Any]) -> Callable[..., Any]:
    """Notes alone: the package replaces files, too."""

    def call(path: Path, target: Path) -> Any:
        is_new = not target.exists() or target.read_bytes() != path.read_bytes()
        found = replace(path, target)
        if target.suffix == ".json" and is_new:
            step()
        return found

    return call


def unlinking(unlink: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Path, missing_ok: bool = False) -> None:
        is_there = path.suffix == ".json" and path.exists()
        unlink(path, missing_ok)
        if is_there:
            step()

    return call


if __name__ == "__main__":
    for name in ("build", "export", "bfs", "sssp"):
        setattr(og, name, dying(getattr(og, name)))
    Path.replace = replacing(Path.replace)  # type: ignore[method-assign, assignment]
    Path.unlink = unlinking(Path.unlink)  # type: ignore[method-assign, assignment]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
