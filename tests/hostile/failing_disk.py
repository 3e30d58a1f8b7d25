"""A small job on a disk that fails at one operation after the other, in a process of its own.

    python -m tests.hostile.failing_disk LIBRARY FOLDER WAY FIRST EVERY [WAY FIRST EVERY ...]

``LIBRARY`` is compiled from ``failing_disk.c`` and loaded before all others (`LD_PRELOAD`). Runs
are forked children of this process, which has compiled what they need.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import ooc_graph as og
from tests.dying import command_of, ended
from tests.job_runs import published, small_job

WAYS = ["full", "broken", "short", "unsynced"]
"""From an operation on the disk is full; or one fails, writes half, or is an fsync that fails."""
MORE = """
[[stage]]
kind = "sssp"
roots = [20, 30]

[[stage]]
kind = "many"
kernel = "apsp"
"""
REFUSED, AGAIN = 1, 75


class Disk:
    """What the library that was loaded before does to this process and its children."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def fail_at(self, folder: Path, way: str, number: int) -> None:
        """Fail operations below the folder, from the one of this number; 0: only count them."""
        self._library.fail_at(os.fsencode(folder), WAYS.index(way), ctypes.c_long(number))

    def operations(self) -> int:
        self._library.operations.restype = ctypes.c_long
        return int(self._library.operations())


def run_on(disk: Disk, way: str, number: int, run: Path, words: list[str]) -> tuple[int, str, int]:
    """A run whose disk fails: its exit code, what it said, and operations that it had."""
    said, counted = run.parent / "said", run.parent / "counted"
    child = os.fork()
    if not child:
        code = 99
        try:
            descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 2)
            disk.fail_at(run, way, number)
            code = command_of(words)
            found = disk.operations()
            disk.fail_at(run, way, 0)
            counted.write_text(str(found))
        finally:
            os._exit(code)
    return ended(child, f"operation {number}"), said.read_text(), int(counted.read_text())


def differing(run: Path, right: Mapping[str, str]) -> list[str]:
    """Names of what a run has published otherwise, or not at all."""
    found = published(run)
    return sorted({name for name, _ in found.items() ^ right.items()})


def main() -> None:
    library, folder, *cases = sys.argv[1:]
    disk, home = Disk(library), Path(folder)
    job, run = small_job(home, MORE), home / "run"
    words = ["run", str(job), "--out", str(run), "--quiet"]
    # Here, and not in a child: all of them have what this loads.
    assert command_of(words) == 0
    right = published(run)
    shutil.rmtree(run)
    for way, first, every in zip(*3 * [iter(cases)], strict=True):
        fail_in_turn(disk, way, int(first), int(every), run, words, right)


def fail_in_turn(
    disk: Disk, way: str, first: int, every: int, run: Path, words: list[str], right: dict[str, str]
) -> None:
    """Run the job again and again: the disk fails at some operation, and then does not."""
    home, number, failed = run.parent, first, 0
    while True:
        code, said, operations = run_on(disk, way, number, run, words)
        if number > operations:
            assert code == 0, said
            break
        where = f"{way} at operation {number} of {operations}: {said}"
        assert code in (0, REFUSED, AGAIN), where
        assert "Traceback" not in said, where
        if code:
            failed += 1
            assert said.startswith("ooc-graph: "), where
            assert said.count("\n") == 1, where
            # Which file, or at least which output.
            assert str(home) in said, where
        else:
            assert not differing(run, right), f"{where}: {differing(run, right)}"
        # What has its name is whole.
        assert published(run).items() <= right.items(), where
        for store in run.glob("*/*.zarr"):
            og.Result.open(store)
        again, said, _ = run_on(disk, way, 0, run, words)
        assert again == 0, f"after {where}: {said}"
        assert not differing(run, right), f"{where}: {differing(run, right)}"
        assert not [*run.rglob("*.partial*"), *run.rglob("*.lock")], where
        shutil.rmtree(run)
        number += every
    assert number > first, f"{way} has only {operations} operations"
    shutil.rmtree(run)
    where = f"{way} from operation {first} on, each {every}th of {operations}"
    sys.stdout.write(f"{where}: {failed} runs failed\n")


if __name__ == "__main__":
    main()
