"""What a store says of its files, held against what is there, before any of it is believed.

A manifest's hashes show damage, not intent: whoever writes a store can write them, too. So its
names stay inside the store, no file is a link, and no array is longer than its chunk files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG

from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout.chunks import REPAIR, FileEntry, ends_in_crc
from ooc_graph.layout.digests import Hasher, digest_of
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CRC_BYTES
from ooc_graph.layout.whole_file import content_of, naming

METADATA = "damaged metadata"
_NO_ARRAY = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SyntaxError)
"""What metadata end in that describe no array."""
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_READ_BYTES = 1 << 20
"""What is hashed at a time."""


def refuse_links(store: Path, manifest: Manifest) -> None:
    """Refuse folders of a store that are symbolic links: what is in them is elsewhere."""
    folders: set[str] = set()
    for name in manifest.files:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for folder in sorted(folders):
        path = os.path.join(store, folder)  # noqa: PTH118 - there are many
        if os.path.islink(path):  # noqa: PTH114
            raise CorruptStoreError(
                f"{path}: is a symbolic link, which no store has; copy the folder itself there"
            )


def spec_of(store: Path, manifest: Manifest, array: str, content: bytes) -> ArraySpec:
    """What the metadata of an array say; CorruptStoreError unless its chunk files hold as much."""
    try:
        spec = ArraySpec.from_document(array, parsed(content))
    except _NO_ARRAY as error:
        raise CorruptStoreError(f"{store / array}/zarr.json: {METADATA} ({error})") from None
    # Counted before it is gone through: a length may be anything.
    if spec.chunks <= len(manifest.files):
        entries = (manifest.files.get(spec.chunk_path(index)) for index in range(spec.chunks))
        size = spec.chunk_bytes + CRC_BYTES
        if all(entry is not None and entry.size == size for entry in entries):
            return spec
    raise CorruptStoreError(
        f"{store / array}: is said to have {spec.length:,} elements, and has no chunk files for "
        f"them; {REPAIR}"
    )


def small_file(store: Path, manifest: Manifest, name: str, damaged: str) -> bytes:
    """Content of a file that is read whole, checked against the manifest."""
    path, entry = store / name, manifest.files.get(name)
    if entry is None:
        raise CorruptStoreError(f"{store}: its manifest has no {name}; {REPAIR}")
    try:
        content = content_of(path)
    except FileNotFoundError:
        raise CorruptStoreError(f"{path}: is missing; {REPAIR}") from None
    if digest_of(content, entry.digest) != entry.digest:
        raise CorruptStoreError(f"{path}: {damaged}; {REPAIR}")
    return content


def what(path: str) -> str:
    """A file of a store in words."""
    array, separator, index = path.rpartition("/c/")
    return f"chunk {index.removesuffix('/0')} of {array}" if separator else "the file"


def check_quickly(store: Path, entry: FileEntry) -> None:
    """Refuse a file whose kind, size, crc32c or small content is not as its entry says."""
    path = store / entry.path
    try:
        state = path.lstat()
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        raise CorruptStoreError(f"{path}: {what(entry.path)} is missing; {REPAIR}") from None
    if not S_ISREG(state.st_mode):
        raise CorruptStoreError(
            f"{path}: {what(entry.path)} is a link or a device, which no store has; copy the "
            "file itself there"
        )
    size = state.st_size
    if size != entry.size:
        raise CorruptStoreError(
            f"{path}: {what(entry.path)} has {size} bytes, expected {entry.size}; {REPAIR}"
        )
    if entry.crc32c is not None and not ends_in_crc(path, entry):
        raise CorruptStoreError(
            f"{path}: {what(entry.path)} is not the one that was written (its crc32c differs "
            f"from the manifest's); {REPAIR}"
        )
    if entry.path.endswith("zarr.json") and not has_digest(path, entry.digest):
        raise CorruptStoreError(f"{path}: {METADATA}; {REPAIR}")


def has_digest(path: Path, digest: str, advance: Callable[[int], None] = lambda _: None) -> bool:
    """Whether a file has a digest; ``advance`` is called with the number of bytes read."""
    hasher, buffer = Hasher(digest), bytearray(_READ_BYTES)
    view = memoryview(buffer)
    with naming(path), path.open("rb", buffering=0) as file:
        while got := file.readinto(view):
            hasher.update(view[:got])
            advance(got)
    return hasher.digest() == digest
