"""Call the command in this process or in one of its own, and compare folders."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LIMIT_S = 280


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: Any) -> Ended:
    """The command in this process: fast, and it sees what a test has replaced."""
    from ooc_graph.cli import entry

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["ooc-graph", *map(str, words)])
    capsys.readouterr()
    try:
        code = entry.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr()
    return Ended(code, said.out, said.err)


def command(*words: Any, cwd: Path | None = None) -> Ended:
    """The command as a user runs it."""
    return script("-m", "ooc_graph", *words, cwd=cwd)


def script(*words: Any, cwd: Path | None = None) -> Ended:
    """Python with arguments."""
    line = [sys.executable, *map(str, words)]
    done = subprocess.run(
        line, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def running(words: Sequence[Any]) -> Iterator[subprocess.Popen[str]]:
    """Python with arguments in a process group of its own; nothing of it survives the context."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with process:
            yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def listing(folder: Path) -> dict[str, str]:
    """Every path below a folder, with a hash of what stands in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }
