"""Copies of remote files in a local cache folder: fetched once, resumed, and checked.

Readers need files that they can map and read at any position, so no reader knows of URLs. The
folder of a copy is named by its URL and by size and tag of the remote file, so that a copy never
changes: a reader finds what it began with, or nothing. A note beside it has the copy's own size and
time.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

import platformdirs

from ooc_graph.errors import DiskFullError, NetworkError
from ooc_graph.layout.locks import locked
from ooc_graph.layout.outputs import make_folder
from ooc_graph.layout.whole_file import disk_full_reported, sync_file, whole_file
from ooc_graph.remote.faults import faults_of
from ooc_graph.remote.objects import RemoteFile, file_system, state_of
from ooc_graph.remote.urls import query_of, scheme_of, shown
from ooc_graph.settings import setting

CACHE = "OOC_GRAPH_CACHE"
"""Variable of the environment that names the cache folder; it comes before the setting."""
PIECE_BYTES, _PIECES = 8 << 20, 8
"""What one request reads, and how many are under way."""
_LONGEST_NAME = 180
"""Bytes of a copy's name; of a longer one the end, which says the format."""
KEPT = "what was fetched is kept, and the same command goes on"


def cache_folder() -> Path:
    """Where copies are."""
    given = os.environ.get(CACHE) or setting("cache-folder")
    return Path(given or Path(platformdirs.user_cache_dir("ooc-graph"), "remote")).absolute()


def folder_of(urls: Sequence[str]) -> Path:
    """Folder of the copies of what is at some URLs."""
    text = "\n".join(f"{shown(url)}?{query_of(url)}" for url in urls)
    return cache_folder() / _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def copy_paths(files: Sequence[RemoteFile]) -> list[Path]:
    """Where the copies of files are, in one folder."""
    state = _hash(json.dumps([[file.size, file.tag] for file in files]))
    folder = folder_of([file.url for file in files]) / state
    return [folder / os.fsdecode(os.fsencode(file.name)[-_LONGEST_NAME:]) for file in files]


def copies_of(files: Sequence[RemoteFile]) -> list[Path]:
    """Copies of files that belong together, in one folder and in their order.

    Copies of earlier states of them are removed.

    Raises
    ------
    NetworkError
        A file cannot be fetched now, ends early, or is changed meanwhile.
    InputError, UsageError
        See `faults_of`; or the cache folder cannot be written.
    DiskFullError, OutputBusyError
        The disk is too small, or another run fetches the same files.
    """
    paths = copy_paths(files)
    if not all(map(_is_current, paths, files)):
        folder = paths[0].parent
        make_folder(folder)
        with (
            disk_full_reported(paths[0], KEPT),
            locked(folder, uuid.uuid4().hex, folder.parent / ".lock"),
        ):
            for path, file in zip(paths, files, strict=True):
                # Another run may have fetched it before this one had the lock.
                if not _is_current(path, file):
                    _publish(_fetched(file, path), path, file)
            for older in folder.parent.iterdir():
                if older.is_dir() and older != folder:
                    shutil.rmtree(older, ignore_errors=True)
    return paths


def beside(path: Path, kind: str) -> Path:
    """A file, or a folder, of the cache's own beside a copy."""
    return path.with_name(f".{path.name}.{kind}")


def _is_current(path: Path, file: RemoteFile) -> bool:
    try:
        return file.tag is not None and beside(path, "json").read_text() == _note(path)
    except OSError:
        return False


def _note(path: Path) -> str:
    state = path.stat()
    return json.dumps([state.st_size, state.st_mtime_ns, state.st_ino])


def _publish(partial: Path, path: Path, file: RemoteFile) -> None:
    sync_file(partial)
    # A build that was stopped goes on if its files are still the same.
    if file.tag is None and path.is_file() and filecmp.cmp(partial, path, shallow=False):
        partial.unlink()
    else:
        partial.replace(path)
    with whole_file(beside(path, "json")) as note:
        note.write_text(_note(path))


def _fetched(file: RemoteFile, path: Path) -> Path:
    """The whole file under its partial name; what an earlier run fetched of it is kept."""
    partial = beside(path, "part")
    if None in (file.size, file.tag):
        partial.unlink(missing_ok=True)
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
    return partial


def require_space(partial: Path, missing: int, url: str) -> None:
    """Refuse to fetch ``missing`` bytes if the disk is too small for them: DiskFullError."""
    free = shutil.disk_usage(partial.parent).free
    if missing > free:
        raise DiskFullError(
            f"{cache_folder()}: {missing:,} bytes of {shown(url)} are to be fetched, "
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
    from fsspec.asyn import sync  # noqa: PLC0415 (few read URLs)

    have = partial.stat().st_size
    if have and have == file.size:
        return
    with partial.open("ab") as out, faults_of(file.url):
        sync(files.loop, _stream, files, file, have, out)


async def _stream(files: Any, file: RemoteFile, have: int, out: BinaryIO) -> None:
    """Append the rest of a file, behind what there is of it, or write all that a server sends."""
    options = dict(files.kwargs)
    if file.size is not None and 0 < have < file.size:
        asked = {"Range": f"bytes={have}-", "If-Range": str(file.tag)}
        options["headers"] = {**options.get("headers", {}), **asked}
    session = await files.set_session()
    async with session.get(files.encode_url(file.url), **options) as response:
        response.raise_for_status()
        is_rest = response.status == HTTPStatus.PARTIAL_CONTENT
        if not is_rest or not _continues(response.headers, file, have):
            out.truncate(0)
            if is_rest:
                raise NetworkError(
                    f"{shown(file.url)}: the server sent other bytes than the rest; try again"
                )
        async for block in response.content.iter_chunked(PIECE_BYTES):
            out.write(block)


def _continues(headers: Mapping[str, str], file: RemoteFile, have: int) -> bool:
    """Whether an answer has the bytes that follow, of the file as it was."""
    begins = headers.get("Content-Range", "").startswith(f"bytes {have}-")
    # Some servers heed Range and not If-Range.
    return begins and headers.get("ETag", file.tag) == file.tag
