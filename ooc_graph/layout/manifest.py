"""The manifest: every file of a store with its size and hashes, and a hash over itself.

A store may be replaced or removed while it is read. `ooc_graph.layout.commit` puts a new store in
the place of an old one, in one step or by two renames with no store in between. A reader that
continues by the same path then finds files of the new store, or none, and these look damaged to it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from ooc_graph.errors import CorruptStoreError, NoStoreError, NotAStoreError, StoreReplacedError
from ooc_graph.layout.chunks import REPAIR, FileEntry
from ooc_graph.layout.digests import FUNCTIONS
from ooc_graph.layout.json_text import indented, parsed
from ooc_graph.layout.names import ASIDE, FORMAT_VERSION, MANIFEST, READ_VERSIONS
from ooc_graph.layout.whole_file import naming

_LOOKS = 100
_PAUSE_S = 0.01
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

Stamp = tuple[int, int]
"""Which manifest file it is: inode, and when that was last changed in ns.

Two files at a path never have the same one, even if their bytes are equal.
"""


def manifest_at(store: Path) -> tuple[bytes, Stamp] | None:
    """Content and stamp of the manifest that stands at a path; None if there is no store.

    Between the two renames that replace a store it waits for the new one, for a second.
    """
    path = store / MANIFEST
    for _ in range(_LOOKS):
        try:
            with naming(path), open(path, "rb", opener=_without_waiting) as file:
                return file.read(), _stamp(os.fstat(file.fileno()))
        except _MISSING:
            if not _is_aside(store) and not path.is_file():
                return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                return None
            raise
        sleep(_PAUSE_S)
    return None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to gives nothing, and a link leads nowhere."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _stamp(state: os.stat_result) -> Stamp:
    return state.st_ino, state.st_ctime_ns


def _is_aside(store: Path) -> bool:
    prefix = f"{store.name}{ASIDE}"
    try:
        return any(path.name.startswith(prefix) for path in store.parent.iterdir())
    except OSError:
        return False


def refuse_other(path: Path, found: str, wanted: str) -> None:
    """Refuse a graph, stored or in memory, whose identity is not the one that was opened."""
    if found != wanted:
        raise replaced(path)


def replaced(path: Path) -> StoreReplacedError:
    """The error that says so."""
    return StoreReplacedError(f"{path}: the store was replaced since it was opened; open it again")


@dataclass(frozen=True)
class Manifest:
    """What a finished store consists of: entries by path inside it.

    ``sha256`` is a hash over the rest of the manifest, the identity of the store's contents.
    ``stamp`` says which file it was read from; None if it was not read.
    """

    kind: str
    files: Mapping[str, FileEntry]
    sha256: str
    stamp: Stamp | None = field(default=None, compare=False)
    version: int = FORMAT_VERSION

    @classmethod
    def of(cls, kind: str, entries: Iterable[FileEntry]) -> Manifest:
        """Manifest of these files."""
        files = {entry.path: entry for entry in sorted(entries, key=lambda entry: entry.path)}
        return cls(kind, files, hashlib.sha256(_encode(_body(kind, files))).hexdigest())

    def encode(self) -> bytes:
        """Bytes of ``manifest.json``."""
        document = {"sha256": self.sha256, "body": _body(self.kind, self.files, self.version)}
        return f"{indented(document)}\n".encode()

    @classmethod
    def load(cls, store: Path) -> Manifest:
        """Read and check the manifest of a finished store.

        NotAStoreError if there is none, CorruptStoreError if it lacks the hash that it states.
        """
        found = manifest_at(store)
        if found is not None:
            return cls.parse(store / MANIFEST, *found)
        if os.path.isfile(store):  # noqa: PTH113 - names that are too long are none
            raise NotAStoreError(
                f"{store}: a file, and not a graph store; build one from its edges first "
                "(ooc-graph build)"
            )
        if not os.path.isdir(store):  # noqa: PTH112 - names that are too long are none
            raise NoStoreError(f"{store}: no such store; give the folder that build wrote")
        inner = next(store.glob(f"*/{MANIFEST}"), None)
        if inner is not None:
            raise NotAStoreError(f"{store}: a folder of stores; give one, such as {inner.parent}")
        raise NotAStoreError(
            f"{store}: not a finished store of this package (it has no {MANIFEST})"
        )

    @classmethod
    def parse(cls, path: str | Path, content: bytes, stamp: Stamp) -> Manifest:
        """Check the content of a manifest file; as `load`."""
        try:
            document = parsed(content)
            body = document["body"]
            version, kind, rows = body["version"], body["kind"], body["files"]
            if version not in READ_VERSIONS:
                raise NotAStoreError(
                    f"{path}: format version {version}, this package reads 1 to {FORMAT_VERSION}"
                )
            version = int(version)
            files = {name: _entry(name, row) for name, row in rows.items()}
            stated = document["sha256"]
            strays = sorted(name for name in files if not _is_inside(name))
            if not isinstance(kind, str):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise CorruptStoreError(f"{path}: damaged manifest; {REPAIR}") from None
        if hashlib.sha256(_encode(_body(kind, files, version))).hexdigest() != stated:
            raise CorruptStoreError(
                f"{path}: damaged manifest (its hash does not fit its content); {REPAIR}"
            )
        if strays:
            raise CorruptStoreError(f"{path}: names a file outside of the store ({strays[0]!r})")
        manifest = cls(kind, files, stated, stamp, version)
        if manifest.encode() != content:
            raise CorruptStoreError(
                f"{path}: damaged manifest (not written by this package); {REPAIR}"
            )
        return manifest

    def stands_at(self, store: Path) -> bool:
        """Whether the file that this was read from is there still, and was not changed."""
        with suppress(OSError):
            return _stamp((store / MANIFEST).stat()) == self.stamp
        return False

    @contextmanager
    def reading(self, store: Path) -> Iterator[None]:
        """Context of reads of the store's files, which says why they fail.

        A store that was replaced since the manifest was read is not damaged, whatever is found
        in its place: StoreReplacedError, or NotAStoreError if there is none by now.
        """
        try:
            yield
        except (OSError, CorruptStoreError) as error:
            # If the manifest cannot be read either, or is damaged, so is what was read.
            with suppress(OSError, CorruptStoreError):
                if _load_again(store).stamp != self.stamp:
                    raise replaced(store) from error
            raise


def load_same(store: Path, identity: str) -> Manifest:
    """Read and check the manifest of the store that was opened before, if it is still there."""
    manifest = _load_again(store)
    refuse_other(store, manifest.sha256, identity)
    return manifest


def _load_again(store: Path) -> Manifest:
    """Manifest that stands by now where a store was opened."""
    found = manifest_at(store)
    if found is None:
        raise NoStoreError(f"{store}: the store is gone; it was removed since it was opened")
    try:
        return Manifest.parse(store / MANIFEST, *found)
    except NotAStoreError:  # of a newer version
        raise replaced(store) from None


def _body(
    kind: str, files: Mapping[str, FileEntry], version: int = FORMAT_VERSION
) -> dict[str, Any]:
    rows = {name: _row(entry) for name, entry in files.items()}
    return {"version": version, "kind": kind, "files": rows}


def _row(entry: FileEntry) -> dict[str, Any]:
    function, _, digits = entry.digest.partition(":")
    row: dict[str, Any] = {"size": entry.size, function: digits}
    if entry.crc32c is not None:
        row["crc32c"] = entry.crc32c
    return row


def _entry(name: str, row: Mapping[str, Any]) -> FileEntry:
    crc = row.get("crc32c")
    if crc is not None and not 0 <= int(crc) < 1 << 32:
        raise ValueError
    (function,) = FUNCTIONS.keys() & row.keys()  # ValueError: none, or two
    digest = f"{function}:{row[function]}"
    return FileEntry(name, int(row["size"]), digest, None if crc is None else int(crc))


def _is_inside(name: str) -> bool:
    """Whether a path leads to something in the store, on any system. ValueError: no path does."""
    os.fsencode(name)
    # An absolute path has an empty part before its first separator.
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
