"""A disk that is full, or nearly."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 8 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"only root may mount a tmpfs: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        # A file whose closing failed for want of space is held until it is collected.
        gc.collect()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, left_bytes: int = 0) -> Path:
    """Leave so much of a disk; the file that takes the rest."""
    state, filler = os.statvfs(disk), disk / "filler"
    filler.write_bytes(bytes(state.f_bavail * state.f_frsize - left_bytes))
    return filler
