"""Uploads of finished stores and files to object stores, compared with what is there afterwards.

An object appears whole, but nothing there can be renamed. So the manifest of a store is replaced
first, by a mark that an upload goes on, and written last: readers find a whole store or the mark.
Whoever has read an older manifest compares each file with it, and takes none of a newer store.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Awaitable, Mapping
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    NetworkError,
    OutputBusyError,
    OutputExistsError,
)
from ooc_graph.layout.digests import NEW, Hasher
from ooc_graph.layout.kinds import kind_in
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.names import MANIFEST
from ooc_graph.remote.coroutines import await_each
from ooc_graph.remote.faults import NO_SUCH, faults_of
from ooc_graph.remote.objects import each_of, file_system
from ooc_graph.remote.stores import UPLOADING
from ooc_graph.remote.urls import joined
from ooc_graph.types import Progress

AT_ONCE = 8
"""Files that are read or sent at the same time."""
_BLOCK_BYTES = 1 << 20
Answer = TypeVar("Answer")


def upload(to: str, outputs: Mapping[str, Path], progress: Progress) -> None:
    """Bring finished stores and files to a folder at a URL, under the names given.

    What is there already with the same size and MD5 is not sent again, so an upload that was
    stopped goes on. Objects below a store's URL that its manifest does not name are removed.

    Raises
    ------
    InputError, NetworkError, UsageError
        See `faults_of`; NetworkError also if an object is not what was sent.
    OutputExistsError
        Something else than a store is where a store is to go.
    OutputBusyError
        Another run uploads to the same URL.
    CorruptStoreError
        A file of a store here is not what its manifest says.
    """
    files = file_system(to)
    uploads = [_Upload(files, joined(to, name), path) for name, path in outputs.items()]
    parts = [(one, name) for one in uploads for name in one.names]
    is_left = Event()
    with progress.stage("reading what is to be uploaded"):
        each_of(lambda part: part[0].read(part[1], is_left), parts, AT_ONCE, is_left.set)
    # The first call of a file system opens its session.
    await_each(files, _Upload.look, uploads[:1], AT_ONCE)
    await_each(files, _Upload.look, uploads[1:], AT_ONCE)
    # Only once nothing speaks against any of them.
    await_each(files, _Upload.mark, uploads, AT_ONCE)
    missing = [(one, name) for one, name in parts if name in one.missing]
    total = sum(one.local[name][0] for one, name in missing)
    with progress.stage("uploading", total, "bytes") as bar:

        async def send(part: tuple[_Upload, str]) -> None:
            one, name = part
            await one.send(name)
            bar.advance(one.local[name][0])

        await_each(files, send, missing, AT_ONCE)
    files.invalidate_cache()
    await_each(files, _Upload.end, uploads, AT_ONCE)


class _Upload:
    """A finished store or a file, and where it goes.

    Files of a store go by their path in it; the name of a file that is none of a store is empty.
    """

    def __init__(self, files: Any, url: str, path: Path) -> None:
        self.files, self.url, self.path = files, url, path
        self.manifest = Manifest.load(path) if (path / MANIFEST).is_file() else None
        self.names = [""] if self.manifest is None else list(self.manifest.files)
        self.local: dict[str, tuple[int, str]] = {}  # size and MD5, by name
        self.missing: set[str] = set()
        self.standing: bytes | None = None  # where the manifest goes, by now

    def url_of(self, name: str) -> str:
        """Where a file goes."""
        return joined(self.url, name) if name else self.url

    def read(self, name: str, is_left: Event) -> None:
        """Note size and MD5 of a file that is to be there, unless nobody waits for it any more."""
        wanted = None if self.manifest is None else self.manifest.files[name].digest
        path, hasher, md5 = self.path / name, Hasher(wanted or NEW), _md5()
        with path.open("rb") as file:
            while (block := file.read(_BLOCK_BYTES)) and not is_left.is_set():
                hasher.update(block)
                md5.update(block)
            self.local[name] = file.tell(), md5.hexdigest()
        if wanted not in (None, hasher.digest()):
            raise CorruptStoreError(
                f"{path}: differs from what the manifest says (its hash); remove that store, and "
                "run the same again"
            )

    async def look(self) -> None:
        """Find out what is missing there, and whether a store may be replaced."""
        there = await self._there()
        found = {name: (facts["size"], _md5_of(facts)) for name, facts in there.items()}
        self.missing = {name for name in self.names if found.get(name) != self.local[name]}
        if self.manifest is not None:
            self.standing = await self._manifest_there()
            if not _is_ours(self.standing, there):
                raise OutputExistsError(
                    f"{self.url}: holds something else than a store of this package; remove it, "
                    "or upload to another URL"
                )

    async def mark(self) -> None:
        """Say there that a store is incomplete, unless it is this one."""
        if self.manifest is not None and self.standing != self.manifest.encode():
            await self._write_manifest(UPLOADING + f'"{uuid.uuid4().hex}"}}\n'.encode())

    async def send(self, name: str) -> None:
        """Send a file, unless another run has begun to upload to the same URL."""
        if self.manifest is not None:
            await self._require_own()
        path, url = self.path / name, self.url_of(name)
        # What is wrong here is not said of the server.
        path.open("rb").close()
        with faults_of(url, writing=True):
            # One part of a file at a time: with those of other files, enough are under way.
            await self.files._put_file(str(path), url, max_concurrency=1)

    async def end(self) -> None:
        """Compare what is there with what was sent; from then on a store is whole."""
        there = await self._there()
        for name, local in self.local.items():
            await self._require(name, there.get(name, {}), *local)
        if self.manifest is None:
            return
        await self._require_own()
        await self._write_manifest(self.manifest.encode())
        for name in there.keys() - self.manifest.files.keys() - {MANIFEST}:
            with faults_of(self.url_of(name), writing=True):
                await self.files._rm_file(self.url_of(name))

    async def _require_own(self) -> None:
        if await self._manifest_there() != self.standing:
            raise OutputBusyError(
                f"{self.url}: another run uploads there; run the same again once that has ended"
            )

    async def _manifest_there(self) -> bytes | None:
        url = self.url_of(MANIFEST)
        found: bytes | None = await _found(url, self.files._cat_file(url))
        return found

    async def _write_manifest(self, content: bytes) -> None:
        """Write what stands where the manifest goes, unless it does."""
        url = self.url_of(MANIFEST)
        if self.standing != content:
            with faults_of(url, writing=True):
                await self.files._pipe_file(url, content)
            if await self._manifest_there() != content:
                raise NetworkError(f"{url}: is not what was sent; try again")
        self.standing = content

    async def _there(self) -> dict[str, Any]:
        """What is stated of the objects there, by name."""
        if self.manifest is None:
            found = await _found(self.url, self.files._info(self.url))
            return {"": found} if found and found["type"] == "file" else {}
        below = await _found(self.url, self.files._find(self.url, detail=True))
        if not isinstance(below, dict):  # of adlfs, if the folder's own name is that of a blob
            below = {}
        start = f"{self.files._strip_protocol(self.url)}/"
        # Consoles make an empty object of a folder's own name.
        return {
            name.removeprefix(start): facts
            for name, facts in below.items()
            if name.startswith(start) and name != start
        }

    async def _require(self, name: str, there: Mapping[str, Any], size: int, md5: str) -> None:
        """Refuse an object that is not what was sent."""
        url = self.url_of(name)
        is_right = there.get("size") == size
        if is_right and _md5_of(there) not in (None, md5):
            # The ETag of an encrypted object may look like an MD5.
            content = await _found(url, self.files._cat_file(url))
            is_right = _md5(content or b"").hexdigest() == md5
        if not is_right:
            raise NetworkError(f"{url}: is not what was sent (size or MD5); try again")


async def _found(url: str, answer: Awaitable[Answer]) -> Answer | None:
    """What a store answers; None if there is no such file or folder."""
    try:
        with faults_of(url):
            return await answer
    except InputError as error:
        if error.problem != NO_SUCH:
            raise
        return None


def _md5(content: bytes = b"") -> Any:
    return hashlib.md5(content, usedforsecurity=False)


def _md5_of(facts: Mapping[str, Any]) -> str | None:
    """MD5 of an object as its store states it, hexadecimal; None if it states none."""
    settings = facts.get("content_settings") or {}
    if settings.get("content_md5"):
        return bytes(settings["content_md5"]).hex()
    if facts.get("md5Hash"):
        return base64.b64decode(facts["md5Hash"]).hex()
    # That of what was sent in parts ends in their number.
    found = re.fullmatch('"?([0-9a-f]{32})"?', facts.get("ETag") or "")
    return None if found is None else found[1]


def _is_ours(standing: bytes | None, there: Mapping[str, Any]) -> bool:
    """Whether there is nothing where a store is to go, or a store, or what is left of an upload."""
    if standing is None:
        return not there
    return standing.startswith(UPLOADING) or kind_in(standing) is not None
