"""Which files there are at a URL, by fsspec, and in which state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ooc_graph.errors import InputError
from ooc_graph.layout.names import MANIFEST
from ooc_graph.remote.faults import NO_SUCH, faults_of
from ooc_graph.remote.urls import LIBRARIES, joined, parent_and_name, scheme_of

for _library in set(LIBRARIES.values()):
    # Python prints warnings that nobody handles, some of them with tracebacks of many lines.
    logging.getLogger(_library).addHandler(logging.NullHandler())

Asked = TypeVar("Asked")
Found = TypeVar("Found")
_AT_ONCE = 16
"""Files that are asked about at the same time."""
_CONNECT_S, _SILENT_S = 60, 120
"""Longest wait for a web server's connection, and for its next bytes."""
_TAGS = ("ETag", "etag", "md5Hash", "Content-MD5", "LastModified", "last_modified", "Last-Modified")
"""What stores call the state of a file, the best first."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL: its size in bytes, and the tag of its content (ETag or time of change).

    None is what the store does not say. Two files with one URL, size and tag have the same bytes.
    """

    url: str
    size: int | None
    tag: str | None

    @property
    def name(self) -> str:
        """Last part of the path."""
        return parent_and_name(self.url)[1]


def file_system(url: str) -> Any:
    """What reads URLs of a scheme; it knows nothing of earlier listings."""
    import fsspec  # noqa: PLC0415 (few read URLs)

    scheme, options = scheme_of(url), {}
    with faults_of(url):
        if scheme in ("http", "https"):
            import aiohttp  # noqa: PLC0415 (of an extra)

            # As long as bytes come. Packed content would be unpacked on its way.
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_S, sock_read=_SILENT_S
            )
            headers = {"Accept-Encoding": "identity"}
            client = {"timeout": timeout, "headers": headers, "trust_env": True}
            options = {"client_kwargs": client}
        return fsspec.filesystem(scheme, skip_instance_cache=True, **options)


def state_of(url: str, files: Any = None) -> RemoteFile | None:
    """The file at a URL; None if there is a folder. Errors are those of `faults_of`."""
    with faults_of(url):
        info = (files or file_system(url)).info(url)
    if info["type"] == "directory":
        return None
    tag = next((str(info[name]) for name in _TAGS if info.get(name)), None)
    return RemoteFile(url, info.get("size"), tag)


def states_of(urls: Sequence[str]) -> list[RemoteFile | None]:
    """The files at some URLs, as `state_of` has each."""
    return _of_each(state_of, urls)


def existing(urls: Sequence[str]) -> list[str]:
    """Those of some URLs that there is a file at."""
    found = _of_each(_is_file, urls)
    return [url for url, there in zip(urls, found, strict=True) if there]


def _of_each(asked: Callable[[str, Any], Found], urls: Sequence[str]) -> list[Found]:
    """What is found out about each URL, by one file system for each scheme."""
    systems = {scheme_of(url): url for url in urls}
    files = {scheme: file_system(url) for scheme, url in systems.items()}
    # The first call of a file system opens its session.
    first = [asked(url, files[scheme_of(url)]) for url in urls[:1]]
    return first + each_of(lambda url: asked(url, files[scheme_of(url)]), urls[1:], _AT_ONCE)


def each_of(
    do: Callable[[Asked], Found],
    things: Sequence[Asked],
    at_once: int,
    leave: Callable[[], object] = lambda: None,
) -> list[Found]:
    """What ``do`` gives of each thing, by some threads; after an error it begins with no other.

    Then ``leave`` is called, before it waits for those that are under way.
    """
    with ThreadPoolExecutor(at_once) as pool:
        begun = [pool.submit(do, one) for one in things]
        try:
            return [one.result() for one in begun]
        finally:
            leave()
            pool.shutdown(cancel_futures=True)


def _is_file(url: str, files: Any) -> bool:
    try:
        return state_of(url, files) is not None
    except InputError as error:
        if error.problem == NO_SUCH:
            return False
        raise


def files_in(folder: str) -> dict[str, str]:
    """URLs of the files that are in a folder itself, by name."""
    with faults_of(folder):
        inside = file_system(folder).ls(folder, detail=True)
    names = (one["name"].rpartition("/")[2] for one in inside if one["type"] == "file")
    # Consoles make an empty object of the folder's own name.
    return {name: joined(folder, name) for name in names if name}


def reach(folder: str) -> None:
    """Ask for files in a folder that may be missing, but whose bucket is there.

    Nothing is written, so a lack of permission to write is not found; nor does Azure say whether
    there is such a container. Errors are those of `faults_of`.
    """
    with faults_of(folder):
        file_system(folder).find(joined(folder, MANIFEST))
