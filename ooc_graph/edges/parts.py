"""Which files are parts of an edge list: of folders, and of what URLs name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from ooc_graph.edges.graphalytics import files_beside, stem_of
from ooc_graph.errors import InputError, UsageError
from ooc_graph.remote.urls import is_url, shown

if TYPE_CHECKING:
    from ooc_graph.remote.objects import RemoteFile

_TABLES = {".parquet", ".parq", ".pq"}


def parts_among(names: Iterable[str], folder: str) -> list[str]:
    """The names that are parts, ascending: tables if there are some, else all that are not hidden.

    InputError: there are none, or the folder is a store.
    """
    visible = sorted(name for name in names if name[0] not in "._")
    if "zarr.json" in visible:
        raise InputError(
            "is a store, not edges", path=folder, advice="search it, or build from its edge files"
        )
    tables = [name for name in visible if PurePath(name).suffix in _TABLES]
    if not visible:
        raise InputError(
            "is a directory without edge files",
            path=folder,
            advice="expected Parquet or text parts",
        )
    return tables or visible


def local_paths(paths: Sequence[str], format_name: str | None) -> list[str]:
    """The paths, with copies of the files in the place of URLs."""
    from ooc_graph.remote.copies import copies_of  # noqa: PLC0415 (few read URLs)

    found: list[str] = []
    for path in paths:
        files = copies_of(remote_files([path], format_name)) if is_url(path) else [path]
        found += map(str, files)
    return list(dict.fromkeys(found))


def remote_files(urls: Sequence[str], format_name: str | None) -> list[RemoteFile]:
    """The files that URLs name: themselves, parts in folders, all files of an LDBC data set."""
    from ooc_graph.remote.objects import states_of  # noqa: PLC0415 (few read URLs)

    wanted = [one for url in urls for one in _data_set(url, format_name) or [url]]
    files: list[RemoteFile] = []
    for url, state in zip(wanted, states_of(wanted), strict=True):
        files += [state] if state is not None else _parts(url)
    unique = {file.url: file for file in files}
    return list(unique.values())


def _parts(folder: str) -> list[RemoteFile]:
    from ooc_graph.remote.objects import files_in, states_of  # noqa: PLC0415 (few read URLs)

    inside = files_in(folder)
    states = states_of([inside[name] for name in parts_among(inside, shown(folder))])
    return [state for state in states if state is not None]


def _data_set(url: str, format_name: str | None) -> list[str]:
    """Files of the LDBC data set that a URL is a file of, or is the stem of; none if of none."""
    from ooc_graph.remote.copies import forget  # noqa: PLC0415 (few read URLs)
    from ooc_graph.remote.objects import existing  # noqa: PLC0415 (few read URLs)

    stem = stem_of(url)
    is_file = stem != url
    if not is_file and format_name != "graphalytics":
        return []
    if shown(url) != url:
        raise UsageError(f"{shown(url)}: files of LDBC data sets are named without a query")
    candidates = files_beside(stem)
    found = existing(candidates)
    # What is read from is the folder of the copies.
    for gone in set(candidates) - set(found):
        forget(gone)
    return found
