"""Copies of finished stores: the files of the manifest at the URL, each compared with its hash.

A copy appears whole, as a store that is built does, and replaces an older one in one step. A fetch
that was stopped, and a store that was replaced at the URL, are gone on with by the files that are
still those of the manifest.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    NotAStoreError,
    OocGraphError,
    StoreReplacedError,
)
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.commit import rename_durably
from ooc_graph.layout.declared import has_digest
from ooc_graph.layout.digests import digest_of
from ooc_graph.layout.locks import locked
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.names import MANIFEST
from ooc_graph.layout.outputs import make_folder
from ooc_graph.layout.stored import Stored
from ooc_graph.layout.whole_file import disk_full_reported, whole_file
from ooc_graph.remote.copies import KEPT, beside, folder_of, require_space
from ooc_graph.remote.faults import NO_SUCH, faults_of
from ooc_graph.remote.objects import each_of, file_system
from ooc_graph.remote.urls import has_secret, is_url, joined, parent_and_name, shown

_AT_ONCE = 8
"""Files that are fetched at the same time; each is in memory meanwhile, as a whole."""
UPLOADING = b'{"uploading": '
"""Beginning of what stands in the place of the manifest while a store is uploaded."""


def local_path(path: str | Path) -> str | Path:
    """Path of a store; of one at a URL that of its copy in the cache folder, fetched if need be.

    Raises
    ------
    NotAStoreError, CorruptStoreError
        There is no finished store at the URL; or one of its files is missing, or is not what the
        manifest says.
    StoreReplacedError
        It was replaced while it was fetched.
    InputError, UsageError, NetworkError, DiskFullError, OutputBusyError
        As of files of edges.
    """
    return _copy_of(path.rstrip("/")) if isinstance(path, str) and is_url(path) else path


def manifest_of(path: str) -> Manifest:
    """Manifest of a store at a path or a URL; nothing else of it is read."""
    return _manifest_at(path, file_system(path)) if is_url(path) else Manifest.load(Path(path))


def _manifest_at(url: str, files: Any) -> Manifest:
    if has_secret(url):
        # Names of files are added to it.
        raise InputError("a store's URL has no user or query", path=shown(url))
    source = joined(url, MANIFEST)
    content = content_of(files, source)
    if content is None:
        raise NotAStoreError(
            f"{shown(url)}: not a finished store of this package (it has no {MANIFEST})"
        )
    if content.startswith(UPLOADING):
        raise StoreReplacedError(
            f"{shown(url)}: is being uploaded, or its upload was stopped; try again when it is done"
        )
    return Manifest.parse(source, content, (0, 0))


def content_of(files: Any, source: str) -> bytes | None:
    """Content of a file at a URL; None if there is no such file."""
    try:
        with faults_of(source):
            content: bytes = files.cat_file(source)
    except InputError as error:
        if error.problem != NO_SUCH:
            raise
        return None
    return content


def copy_path(url: str) -> Path:
    """Where the copy of a store is."""
    return folder_of([url]) / parent_and_name(url)[1]


def _copy_of(url: str) -> Path:
    files = file_system(url)
    manifest = _manifest_at(url, files)
    final = copy_path(url)
    if _is_whole(final, manifest):
        return final
    make_folder(final.parent)
    with (
        disk_full_reported(final, KEPT),
        locked(final, uuid.uuid4().hex, beside(final, "lock")),
    ):
        # Another run may have fetched it before this one had the lock.
        if not _is_whole(final, manifest):
            _fetch(url, files, manifest, final)
    return final


def _is_whole(store: Path, manifest: Manifest) -> bool:
    with suppress(OocGraphError):
        Stored.open(store, identity=manifest.sha256)
        return True
    return False


def _fetch(url: str, files: Any, manifest: Manifest, final: Path) -> None:
    partial = beside(final, "part")
    partial.mkdir(exist_ok=True)
    entries = list(manifest.files.values())
    there = each_of(lambda entry: _is_there(entry, partial, final), entries, _AT_ONCE)
    missing = [entry for entry, found in zip(entries, there, strict=True) if not found]
    require_space(partial, sum(entry.size for entry in missing), url)
    try:
        _fetch_each(url, files, missing, partial)
    except (CorruptStoreError, InputError):
        # While a store is uploaded over another one, its files are of either.
        if _manifest_at(url, files).sha256 != manifest.sha256:
            raise StoreReplacedError(
                f"{shown(url)}: was replaced while it was fetched; try again"
            ) from None
        raise
    _remove_strays(partial, manifest)
    with whole_file(partial / MANIFEST) as written:
        written.write_bytes(manifest.encode())
    rename_durably(partial, final)
    # What was replaced has its name now.
    shutil.rmtree(partial, ignore_errors=True)


def _is_there(entry: FileEntry, partial: Path, final: Path) -> bool:
    """Whether a file was fetched before, by a run that was stopped or for an older store."""
    if _is_right(partial / entry.path, entry):
        return True
    if not _is_right(final / entry.path, entry):
        return False
    (partial / entry.path).parent.mkdir(parents=True, exist_ok=True)
    (partial / entry.path).unlink(missing_ok=True)
    with suppress(OSError):
        os.link(final / entry.path, partial / entry.path)
        return True
    return False


def _is_right(path: Path, entry: FileEntry) -> bool:
    try:
        return path.stat().st_size == entry.size and has_digest(path, entry.digest)
    except OSError:
        return False


def _fetch_each(url: str, files: Any, entries: Sequence[FileEntry], partial: Path) -> None:
    def fetch(entry: FileEntry) -> None:
        source = joined(url, entry.path)
        content = content_of(files, source)
        if content is None:
            raise CorruptStoreError(f"{source}: is missing; upload the store again")
        if len(content) != entry.size or digest_of(content, entry.digest) != entry.digest:
            raise CorruptStoreError(
                f"{source}: is not what the manifest says (size or hash); upload the store again"
            )
        (partial / entry.path).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(partial / entry.path) as written:
            written.write_bytes(content)

    each_of(fetch, entries, _AT_ONCE)


def _remove_strays(partial: Path, manifest: Manifest) -> None:
    """Remove what is left of another store."""
    for path in partial.rglob("*"):
        if path.is_file() and path.relative_to(partial).as_posix() not in manifest.files:
            path.unlink()
