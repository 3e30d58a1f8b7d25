"""Folders of processes: removed at the end, or by the next process where one was killed."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest

from ooc_graph.runtime.scratch import scratch_folder
from tests.command_line import running, script

CHILD = """
import os, signal, sys
from pathlib import Path
from ooc_graph.runtime.scratch import scratch_folder

with scratch_folder() as folder:
    Path(folder, "inside").mkdir()
    Path(folder, "inside", "file").write_text("x")
    print(folder, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_at_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        Path(folder, "file").write_text("x")
        assert list(temporary.iterdir()) == [Path(folder)]
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next(temporary: Path) -> None:
    ended = script("-c", CHILD, "killed")
    assert ended.code == -signal.SIGKILL
    left = Path(ended.out.strip())
    assert (left / "inside" / "file").exists()
    with scratch_folder() as folder:
        assert list(temporary.iterdir()) == [Path(folder)]


def test_what_is_in_use_or_somebody_elses_stays(temporary: Path) -> None:
    others = temporary / "ooc-graph-run-link"
    (temporary / "elsewhere").mkdir()
    others.symlink_to(temporary / "elsewhere")
    (temporary / "ooc-graph-12").mkdir()
    with running(["-c", CHILD, "waits"]) as process:
        assert process.stdout is not None
        used = Path(process.stdout.readline().strip())
        with scratch_folder(), scratch_folder():
            assert (used / "inside" / "file").exists()
        process.kill()
    assert (used / "inside" / "file").exists()
    names = {path.name for path in temporary.iterdir()} - {used.name}
    assert names == {"ooc-graph-run-link", "elsewhere", "ooc-graph-12"}


def test_a_folder_that_is_taken_for_abandoned_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may see a new folder before it is locked."""
    made, first = tempfile.mkdtemp, []

    def taken(**named: str) -> str:
        folder = made(**named)
        if not first:
            first.append(folder)
            Path(folder).rmdir()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    with scratch_folder() as folder:
        assert Path(folder).is_dir()
        assert folder not in first
    assert first
