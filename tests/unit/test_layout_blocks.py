"""Files written past the page cache: whole or refused, whatever the file system and signals do."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ooc_graph.layout import blocks
from ooc_graph.layout.blocks import BLOCK_BYTES, BlockWriter, byte_view

DIRECT = getattr(os, "O_DIRECT", 0)
SIZES = (0, 5, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 4097)


def content(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


def write(path: Path, data: np.ndarray[Any, np.dtype[np.uint8]], step: int = 300_000) -> None:
    with BlockWriter(path) as writer:
        for start in range(0, len(data), step):
            writer.write(byte_view(data[start : start + step]))


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_what_was_written(size: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"longer than what replaces it" * 200_000)
    write(tmp_path / "file", content(size))
    assert (tmp_path / "file").read_bytes() == content(size).tobytes()


@pytest.mark.skipif(not DIRECT, reason="the system has no O_DIRECT")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("refuses", ["open", "write"])
def test_file_systems_that_do_not_go_past_the_page_cache(
    refuses: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def refusing(real: Any, flags_of: Any) -> Any:
        def call(first: Any, *rest: Any) -> Any:
            if flags_of(first, *rest) & DIRECT:
                refused.append(first)
                raise OSError(number, os.strerror(number))
            return real(first, *rest)

        return call

    flags = {
        "open": lambda _, flags, *__: flags,
        "write": lambda descriptor, _: fcntl.fcntl(descriptor, fcntl.F_GETFL),
    }
    # Where the test's own file system refuses to open, its writes are plain anyway.
    with monkeypatch.context() as patch:
        patch.setattr(os, refuses, refusing(getattr(os, refuses), flags[refuses]))
        write(tmp_path / "file", content(SIZES[-1]))
    assert refused or refuses == "write"
    assert (tmp_path / "file").read_bytes() == content(SIZES[-1]).tobytes()


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda to, data: real(to, data[: 1 + len(data) // 3]))
        write(tmp_path / "file", content(SIZES[-1]))
    assert (tmp_path / "file").read_bytes() == content(SIZES[-1]).tobytes()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_of_a_block_is_the_caller_s(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = os.write, 0

    def full(descriptor: int, data: memoryview) -> int:
        nonlocal written
        if written:
            raise OSError(number, os.strerror(number))
        written = real(descriptor, data)
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=os.strerror(number)):
            write(tmp_path / "file", content(SIZES[-1]))
    write(tmp_path / "file", content(SIZES[-1]))
    assert (tmp_path / "file").read_bytes() == content(SIZES[-1]).tobytes()


def test_a_write_of_nothing_does_not_go_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(OSError, match="takes no more bytes"):
        write(tmp_path / "file", content(5))


def test_an_interrupt_reuses_neither_block_nor_descriptor_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the caller waits for a block: the next file must not get any of its bytes."""
    real, begun, go_on = os.write, threading.Event(), threading.Event()
    closed_while_written = []

    def slow(descriptor: int, data: memoryview) -> int:
        begun.set()
        assert go_on.wait(120)
        closed_while_written.append(os.fstat(descriptor).st_ino != inode)
        return real(descriptor, data)

    def interrupted(future: Future[None], timeout: float | None = None) -> None:
        assert begun.wait(120)
        threading.Timer(0.2, go_on.set).start()
        raise KeyboardInterrupt

    first, second = content(2 * BLOCK_BYTES), content(2 * BLOCK_BYTES + 1)
    writer = BlockWriter(tmp_path / "first")
    inode, used = (tmp_path / "first").stat().st_ino, blocks._of_thread.blocks
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", slow)
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt), writer:
            writer.write(byte_view(first))
    assert closed_while_written == [False]
    write(tmp_path / "second", second)
    assert not {id(block) for block in used} & {id(block) for block in blocks._of_thread.blocks}
    assert (tmp_path / "second").read_bytes() == second.tobytes()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_writes_with_threads_and_blocks_of_its_own(tmp_path: Path) -> None:
    """Threads are not forked, and the parent's blocks are memory that both would share."""
    write(tmp_path / "parent", content(SIZES[-1]))
    held = blocks._of_thread.blocks[0]
    before = bytes(held)
    child = os.fork()
    if child == 0:
        threading.Timer(120, os._exit, (2,)).start()
        try:
            write(tmp_path / "child", content(3 * BLOCK_BYTES))
        except BaseException:  # noqa: BLE001 - must not come back into the tests
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(held) == before
    assert (tmp_path / "child").read_bytes() == content(3 * BLOCK_BYTES).tobytes()
