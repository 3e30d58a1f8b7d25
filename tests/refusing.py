"""The command in a folder of its own, and what a refusal is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.runtime import cluster, joined_cluster
from tests.command_line import Ended, call

Call = Callable[..., Ended]

GOOD = "1 2\n2 3\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command where starting or joining a cluster is an error."""

    def no_cluster(*_: Any, **__: Any) -> None:
        raise AssertionError("a cluster was started or joined for a refusal that needs none")

    monkeypatch.setattr(cluster, "LocalCluster", no_cluster)
    for module in (cluster, joined_cluster):
        monkeypatch.setattr(module, "Client", no_cluster)
    return lambda *words: call(monkeypatch, capsys, *words)


@pytest.fixture
def in_process(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command where threads of this process do what a cluster would."""

    @contextmanager
    def nothing(workers: int = 1) -> Iterator[None]:
        yield None

    monkeypatch.setattr(cluster, "local_cluster", nothing)
    return lambda *words: call(monkeypatch, capsys, *words)


def refused(done: Ended, *said: str, code: int = 2) -> None:
    assert done.code == code, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("ooc-graph: ")
    for part in said:
        assert part in line


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def made(path: Path, content: str = GOOD, **options: Any) -> Path:
    og.build(write(path.with_suffix(".txt"), content), path, **options)
    return path
