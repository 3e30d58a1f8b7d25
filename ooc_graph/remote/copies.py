"""Copies of remote files in a local cache folder: fetched once, resumed, and checked.

Readers need files that they can map and read at any position, so no reader knows of URLs. A copy
appears whole, beside a note that says of what it is one. It is fetched again if size or tag of the
remote file, or the copy, are not those of the note.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import platformdirs

from ooc_graph.errors import DiskFullError, NetworkError
from ooc_graph.layout.outputs import make_folder
from ooc_graph.layout.whole_file import disk_full_reported, locked, sync_file, whole_file
from ooc_graph.remote.faults import faults_of
from ooc_graph.remote.objects import RemoteFile, file_system, state_of
from ooc_graph.remote.urls import parent_and_name, query_of, scheme_of, shown

CACHE = "OOC_GRAPH_CACHE"
"""Variable of the environment that names the cache folder."""
PIECE_BYTES, _PIECES = 8 << 20, 8
"""What one request reads, and how many are under way."""
_LONGEST_NAME = 180
"""Bytes of a copy's name; of a longer one the end, which says the format."""
KEPT = "what was fetched is kept, and the same command goes on"


def cache_folder() -> Path:
    """Where copies are."""
    given = os.environ.get(CACHE)
    return Path(given or Path(platformdirs.user_cache_dir("ooc-graph"), "remote")).absolute()


def copy_path(url: str) -> Path:
    """Where the copy of a file is: those of one remote folder are in one local folder."""
    parent, name = parent_and_name(url)
    key = hashlib.sha256(f"{parent}\n{query_of(url)}".encode()).hexdigest()[:16]
    return cache_folder() / key / os.fsdecode(os.fsencode(name)[-_LONGEST_NAME:])


def copies_of(files: Sequence[RemoteFile]) -> list[Path]:
    """Copies of some files, in their order.

    Raises
    ------
    NetworkError
        A file cannot be fetched now, ends early, or is changed meanwhile.
    InputError, UsageError
        See `faults_of`; or the cache folder cannot be written.
    DiskFullError, OutputBusyError
        The disk is too small, or another run fetches the same file.
    """
    return [_copy_of(file) for file in files]


def forget(url: str) -> None:
    """Remove the copy of a file that is not there any more."""
    copy_path(url).unlink(missing_ok=True)


def _copy_of(file: RemoteFile) -> Path:
    path = copy_path(file.url)
    if _is_current(path, file):
        return path
    make_folder(path.parent)
    with (
        disk_full_reported(path, KEPT),
        locked(path, uuid.uuid4().hex, beside(path, "lock")),
    ):
        # Another run may have fetched it before this one had the lock.
        if not _is_current(path, file):
            partial = _fetched(file, path)
            _publish(partial, path, file)
    return path


def beside(path: Path, kind: str) -> Path:
    """A file, or a folder, of the cache's own; folders of parts are read without such names."""
    return path.with_name(f".{path.name}.{kind}")


def _is_current(path: Path, file: RemoteFile) -> bool:
    try:
        note = json.loads(beside(path, "json").read_bytes())
        return file.tag is not None and bool(note == _note(path, file))
    except (OSError, ValueError):
        return False


def _note(path: Path, file: RemoteFile) -> dict[str, Any]:
    state = path.stat()
    stamp = [state.st_size, state.st_mtime_ns, state.st_ino]
    return {"url": shown(file.url), "size": file.size, "tag": file.tag, "stamp": stamp}


def _publish(partial: Path, path: Path, file: RemoteFile) -> None:
    sync_file(partial)
    # A build that was stopped goes on if its files are still the same.
    if file.tag is None and path.is_file() and filecmp.cmp(partial, path, shallow=False):
        partial.unlink()
    else:
        partial.replace(path)
    with whole_file(beside(path, "json")) as note:
        note.write_text(json.dumps(_note(path, file)))


def _fetched(file: RemoteFile, path: Path) -> Path:
    """The whole file under its partial name; what an earlier run fetched of it is kept."""
    partial, begun = beside(path, "part"), beside(path, "begun")
    meant = json.dumps([shown(file.url), file.size, file.tag])
    is_same = begun.is_file() and begun.read_text() == meant
    if not is_same or None in (file.size, file.tag):
        partial.unlink(missing_ok=True)
        with whole_file(begun) as note:
            note.write_text(meant)
    partial.touch()
    require_space(partial, (file.size or 0) - partial.stat().st_size, file.url)
    files = file_system(file.url)
    stream = _by_stream if scheme_of(file.url) in ("http", "https") else _by_pieces
    stream(files, file, partial)
    found = partial.stat().st_size
    if file.size is not None and found != file.size:
        partial.unlink()
        raise NetworkError(
            f"{shown(file.url)}: {found:,} bytes were read, {file.size:,} are stated; try again"
        )
    if state_of(file.url, files) != file:
        partial.unlink()
        raise NetworkError(f"{shown(file.url)}: was changed while it was read; try again")
    begun.unlink()
    return partial


def require_space(partial: Path, missing: int, url: str) -> None:
    """Refuse to fetch so many bytes more if the disk is too small: DiskFullError."""
    free = shutil.disk_usage(partial.parent).free
    if missing > free:
        raise DiskFullError(
            f"{partial.parent.parent}: {missing:,} bytes of {shown(url)} are to be fetched, "
            f"{free:,} are free; free some space, or name another folder with {CACHE}"
        )


def _by_pieces(files: Any, file: RemoteFile, partial: Path) -> None:
    """Read a file of an object store by ranges, several at once, and go on from what there is."""
    assert file.size is not None
    step = PIECE_BYTES * _PIECES
    # A crash of the system may have lost bytes of the last step, which was not synced.
    have = max(0, partial.stat().st_size // step - 1) * step
    os.truncate(partial, have)
    with partial.open("ab", buffering=0) as out:
        for begin in range(have, file.size, step):
            end = min(begin + step, file.size)
            starts = list(range(begin, end, PIECE_BYTES))
            ends = [min(start + PIECE_BYTES, end) for start in starts]
            with faults_of(file.url):
                urls = [file.url] * len(starts)
                pieces = files.cat_ranges(urls, starts, ends, on_error="raise")
            for start, stop, piece in zip(starts, ends, pieces, strict=True):
                if len(piece) != stop - start:
                    raise NetworkError(
                        f"{shown(file.url)}: ends early, after {start + len(piece):,} of "
                        f"{file.size:,} bytes; try again"
                    )
                out.write(piece)
            os.fsync(out.fileno())


def _by_stream(files: Any, file: RemoteFile, partial: Path) -> None:
    """Read a file of a web server in one response; one that sends ranges goes on."""
    have = partial.stat().st_size
    if have and have == file.size:
        return
    if have:
        headers = {"Range": f"bytes={have}-", "If-Range": str(file.tag)}
        with partial.open("ab") as out, faults_of(file.url):
            files.get_file(file.url, out, headers=headers)
        if partial.stat().st_size == file.size:
            return
        os.truncate(partial, 0)
    with partial.open("ab") as out, faults_of(file.url):
        files.get_file(file.url, out)
