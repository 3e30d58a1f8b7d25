"""URLs: which are read, their parts, and how they are shown without secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ooc_graph.errors import UsageError

LIBRARIES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
}
"""Schemes that are read, and the library that each needs beside fsspec."""
OBJECT_STORES = [scheme for scheme, library in LIBRARIES.items() if library != "aiohttp"]
"""Those that are written to."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def lacking(scheme: str) -> str:
    """What is said if the library of a scheme is not installed."""
    return (
        f"{scheme}:// needs {LIBRARIES[scheme]}; install it with: pip install 'ooc-graph[remote]'"
    )


def is_url(path: Any) -> bool:
    """Whether a path is a URL, of any scheme."""
    return isinstance(path, str) and _URL.match(path) is not None


def file_path(given: Any, argument: str = "") -> Path:
    """The local path that an argument gives; UsageError if it gives none."""
    name = f"{argument}: " if argument else ""
    if not isinstance(given, (str, os.PathLike)):
        raise UsageError(f"{name}give a path, not {type(given).__name__}")
    if not os.fspath(given):
        raise UsageError(f"{name}an empty word is no path")
    if isinstance(given, str) and is_url(given):
        raise UsageError(f"{name}{shown(given)} is a URL, and a path is needed here")
    return Path(given)


def scheme_of(url: str) -> str:
    """Scheme of a URL; UsageError if it is none that is read, or names nothing."""
    scheme = url.partition("://")[0]
    # In capitals libraries take it for the name of a bucket.
    if scheme not in LIBRARIES:
        known = ", ".join(f"{name}://" for name in LIBRARIES)
        raise UsageError(f"{shown(url)}: {scheme}:// is not read; there are {known}")
    if scheme not in ("http", "https") and re.search("[?#]", url):
        raise UsageError(f"{shown(url)}: names of objects with ? or # in them are not read")
    if not shown(url).partition("://")[2].strip("/"):
        raise UsageError(f"{shown(url)}: names no file")
    return scheme


def shown(url: str) -> str:
    """The URL without what may be secret: user and password, query, fragment.

    Messages and whatever is written name URLs by this alone.
    """
    scheme, _, rest = url.partition("://")
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    user, _, server = host.rpartition("@")
    # CONTAINER@ACCOUNT, as Azure names them.
    if scheme.lower() not in ("az", "abfs") or ":" in user:
        host = server
    return f"{scheme}://{host}{slash}{path}"


def has_secret(url: str) -> bool:
    """Whether a URL has parts that are not shown."""
    return shown(url) != url


def parent_and_name(url: str) -> tuple[str, str]:
    """URL of the folder that a file is in, without its secrets, and the name of the file."""
    parent, _, name = shown(url).rpartition("/")
    if not name or parent.endswith(":/"):
        raise UsageError(f"{shown(url)}: names no file")
    return parent, name


def query_of(url: str) -> str:
    """The query of a URL on a web server, which may say which file is meant."""
    return urlsplit(url).query if scheme_of(url) in ("http", "https") else ""


def joined(folder: str, name: str) -> str:
    """URL of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"
