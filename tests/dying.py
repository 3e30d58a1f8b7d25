"""Calls in forked children that are killed, and the command, killed before some step.

A step gives a file or store its name. The command is for a process of its own, see
`tests.own_process`: the children have the compiled kernels that it has loaded (`command_of`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from ooc_graph.cli.entry import run
from ooc_graph.jobs import folder as run_folder
from ooc_graph.layout import commit
from tests.own_process import in_own_process

LIMIT_S = 120
# Of a child: its folder, and how many steps it has before it is killed.
_watched: list[Any] = []


def step_ahead(path: Any) -> None:
    """Something is about to be published at a path; or never, if it is that child's turn."""
    if not _watched:
        return
    folder, left = _watched
    name = os.path.relpath(os.fsdecode(path), folder)
    if name.startswith("..") or any(part in name for part in (".partial-", "spill")):
        return
    _watched[1] = left - 1
    if left == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if event == "os.rename":
        step_ahead(given[1])


@cache
def _prepare() -> None:
    """Once in a process: hooks are for ever. They do nothing but in children that are watched."""
    sys.addaudithook(_hook)
    exchange, append = commit._exchange, run_folder.append_line

    def exchanging(first: Path, second: Path) -> None:
        step_ahead(second)
        exchange(first, second)

    def appending(path: Path, line: str) -> None:
        step_ahead(path)
        append(path, line)

    commit._exchange = exchanging
    run_folder.append_line = appending  # type: ignore[attr-defined]


def command_of(words: list[str]) -> int:
    """Run the command in this process, which says nothing; its exit code."""
    sys.argv = ["ooc-graph", *words]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        return run()


def command_until(step: int | None, folder: Path, words: list[str]) -> int:
    """Run the command in a child; its exit code, or less than 0: it was killed before that step."""
    _prepare()
    child = os.fork()
    if not child:
        code = 99
        try:
            if step is not None:
                _watched[:] = [folder, step]
            code = command_of(words)
        finally:
            os._exit(code)
    return ended(child, f"step {step} of {words}")


def in_child(function: Callable[..., object], *arguments: Any) -> int:
    """Call a function of a test module; exit code of its process, less than 0 if it was killed.

    The process is a forked child of that of `in_own_process`, which has the modules already.
    """
    return in_own_process(_forked, function, arguments)


def _forked(function: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    child = os.fork()
    if not child:
        code = 99
        try:
            function(*arguments)
            code = 0
        except BaseException:  # noqa: BLE001 - must not come back into the parent's program
            traceback.print_exc()
        finally:
            os._exit(code)
    return ended(child, function.__name__)


def ended(child: int, what: str) -> int:
    """Exit code of a child once it has ended; TimeoutError if it does not."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"{what} has not ended for {LIMIT_S} s")
        time.sleep(0.005)
