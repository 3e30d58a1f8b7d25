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
        if not is_url(path):
            found.append(path)
            continue
        for group in remote_files([path], format_name):
            found += map(str, copies_of(group))
    return list(dict.fromkeys(found))


def remote_files(urls: Sequence[str], format_name: str | None) -> list[list[RemoteFile]]:
    """The files that URLs name, in groups that belong in one folder.

    All files of an LDBC data set are a group; every other file, also of a folder, is one alone.
    """
    from ooc_graph.remote.objects import states_of  # noqa: PLC0415 (few read URLs)

    wanted = [_data_set(url, format_name) or [url] for url in urls]
    states = iter(states_of([url for group in wanted for url in group]))
    found: list[list[RemoteFile]] = []
    for group in wanted:
        files = [state for _ in group if (state := next(states)) is not None]
        found += [files] if files else _parts(group[0], format_name)
    return found


def _parts(folder: str, format_name: str | None) -> list[list[RemoteFile]]:
    """The files of a folder, in groups as `remote_files` has them."""
    from ooc_graph.remote.objects import files_in, states_of  # noqa: PLC0415 (few read URLs)

    inside = files_in(folder)
    names = parts_among(inside, shown(folder))
    of_data_sets = [name for name in names if stem_of(name) != name]
    is_data_set = of_data_sets == names or format_name == "graphalytics"
    states = states_of([inside[name] for name in (of_data_sets if is_data_set else names)])
    files = [state for state in states if state is not None]
    if is_data_set and not files:
        raise InputError("no .e, .v or .properties file", path=shown(folder))
    return [files] if is_data_set else [[file] for file in files]


def _data_set(url: str, format_name: str | None) -> list[str]:
    """Files of the LDBC data set that a URL is a file of, or is the stem of; none if of none."""
    from ooc_graph.remote.objects import existing  # noqa: PLC0415 (few read URLs)

    stem = stem_of(url)
    if stem == url and format_name != "graphalytics":
        return []
    if shown(url) != url:
        raise UsageError(f"{shown(url)}: files of LDBC data sets are named without a query")
    return existing(files_beside(stem))
