"""What a run depends on and what it wrote: hashes, and stamps that say whether a file may differ.

A file is read again only if its size or one of its times has changed since its hash was noted.
Nothing is imported here that opens edges, unless files have changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ooc_graph.errors import (
    CorruptStoreError,
    MissingFileError,
    NotAStoreError,
    StoreReplacedError,
    UsageError,
)
from ooc_graph.jobs.model import FilesSource, KroneckerSource, Source, StoreSource
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.names import MANIFEST
from ooc_graph.remote.stores import manifest_of
from ooc_graph.remote.urls import is_url

Stamp: TypeAlias = list[int]
"""Size of a file in bytes, and when content and inode were last changed, in ns."""
Files: TypeAlias = dict[str, dict[str, Any]]
"""What is known of files, JSON-able.

``hashes`` has by path the stamp of a file and its SHA-256, ``lists`` by what is named in a job file
which files there were, and the stamps of these and of all in the same folders.
"""


def stamp_of(path: Path) -> Stamp | None:
    """Stamp of a file, or of the manifest of a store; None if there is none."""
    for file in (path / MANIFEST, path):
        if os.path.isfile(file):  # noqa: PTH113 - names that are too long are none
            state = file.stat()
            return [state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    return None


def sha256_of(path: Path) -> str | None:
    """Hash of a file, or of a store its identity, which is a hash, too.

    None if there is none, or a store whose manifest is damaged.
    """
    if (path / MANIFEST).is_file():
        try:
            return Manifest.load(path).sha256
        except (CorruptStoreError, NotAStoreError):
            return None
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_damaged(store: Path) -> bool:
    """Whether a folder is no store, or its manifest is not that of its files."""
    from ooc_graph.layout.stored import Stored  # noqa: PLC0415 - few folders are looked at

    try:
        Stored.open(store)
    except (CorruptStoreError, NotAStoreError):
        return True
    return False


def noted(path: Path) -> dict[str, Any]:
    """What tells that a file or store is still the same."""
    return {"stamp": stamp_of(path), "sha256": sha256_of(path)}


def is_same(path: Path, note: Mapping[str, Any]) -> bool:
    """Whether a file or store is still what it was when it was noted."""
    stamp = stamp_of(path)
    return stamp is not None and (
        stamp == note.get("stamp") or sha256_of(path) == note.get("sha256", "")
    )


def source_of(source: Source, files: Files) -> dict[str, Any]:
    """The edges, or the graph, by content: what decides about them, JSON-able.

    ``files`` are those that an earlier run read, and become those of now.

    Raises
    ------
    InputError, UsageError
        Files that cannot be read as what they should be.
    NetworkError
        A server cannot be reached.
    NotAStoreError
        There is no graph.
    """
    if isinstance(source, KroneckerSource):
        return source.model_dump()
    if isinstance(source, StoreSource):
        manifest = manifest_of(source.path)
        if manifest.kind != "graph":
            raise NotAStoreError(f"{source.path}: holds a {manifest.kind}, a graph is needed here")
        return {"kind": source.kind, "graph": manifest.sha256}
    options = source.model_dump(exclude={"path"}, exclude_none=True)
    return {**options, "files": _files_of(source, files)}


def open_edges(source: KroneckerSource | FilesSource) -> Any:
    """The edges as the API takes them."""
    import ooc_graph as og  # noqa: PLC0415 (much is imported)

    if isinstance(source, KroneckerSource):
        options = source.model_dump(exclude={"kind", "scale", "seeds"})
        return og.Kronecker(source.scale, seeds=(source.seeds[0], source.seeds[1]), **options)
    options = source.model_dump(exclude={"kind", "path"})
    return og.open_source(source.path, **options)


def open_graph(path: str | Path, source: Mapping[str, Any] | None) -> Any:
    """A graph; if it is a ``source`` as of `source_of`, that one.

    StoreReplacedError: it was replaced, and answers would not be those that were planned.
    """
    import ooc_graph as og  # noqa: PLC0415 (much is imported)

    graph = og.open(path)
    if source is not None and graph.identity != source["graph"]:
        raise StoreReplacedError(f"{path}: the graph was replaced during this run; run it again")
    return graph


def file_sha256(path: str, files: Files) -> str:
    """Hash of one file; noted among the ``files``."""
    file, hashes = Path(path), files.setdefault("hashes", {})
    if not file.is_file():
        raise MissingFileError("cannot be read (no such file)", path=path)
    if not (path in hashes and hashes[path]["stamp"] == stamp_of(file)):
        hashes[path] = noted(file)
    return str(hashes[path]["sha256"])


def vertices_in(path: str | list[int]) -> list[int]:
    """Vertices of a file, or those of a list; InputError as of `ids_in`."""
    if isinstance(path, list):
        return path
    from ooc_graph.api.vertices import ids_in  # noqa: PLC0415 (many modules)

    ids: list[int] = ids_in(Path(path)).tolist()
    return ids


def vertices_sha256(path: str, files: Files) -> str:
    """Hash of a file of vertices, which is read now if it is another one than was noted."""
    before = files.get("hashes", {}).get(path)
    found = file_sha256(path, files)
    if files["hashes"][path] is not before:
        vertices_in(path)
    return found


def answers_of(path: Path, stage: str) -> dict[str, str]:
    """Hashes of earlier answers: a store, or those that a stage has in the folder of a run."""
    if (path / MANIFEST).is_file():
        stores = [path]
    else:
        stores = [path / f"{stage}.zarr", *sorted((path / stage).glob("*.zarr"))]
    return {one.name: found for one in stores if (found := sha256_of(one)) is not None}


def _files_of(source: FilesSource, files: Files) -> list[dict[str, Any]]:
    """Name of each file of edges, and what tells its content from another, in their order."""
    if any(map(is_url, source.paths)):
        return _remote_files_of(source, files)
    lists, listed = files.setdefault("lists", {}), "\n".join(source.paths)
    before = lists.get(listed, {})
    stamps = _stamps([*source.paths, *before.get("paths", [])])
    if before.get("stamps") != stamps:
        paths = list(open_edges(source).paths)
        before = lists[listed] = {"paths": paths, "stamps": _stamps([*source.paths, *paths])}
    return [
        {"name": Path(path).name, "sha256": file_sha256(path, files)} for path in before["paths"]
    ]


def input_bytes(known: Iterable[Mapping[str, Any]], files: Files) -> int | None:
    """Bytes of files that `source_of` found, as they are stored; None: a server does not say."""
    by_hash = {one["sha256"]: one["stamp"][0] for one in files.get("hashes", {}).values()}
    sizes = [one["size"] if "size" in one else by_hash[one["sha256"]] for one in known]
    return None if None in sizes else sum(sizes)


def _remote_files_of(source: FilesSource, files: Files) -> list[dict[str, Any]]:
    """As `_files_of`, of URLs: by size and tag, so that nothing is fetched; by hash without one."""
    from ooc_graph.edges.parts import remote_files  # noqa: PLC0415 (much is imported)
    from ooc_graph.remote.copies import copies_of  # noqa: PLC0415 (much is imported)

    if not all(map(is_url, source.paths)):
        raise UsageError("source.path: give URLs alone, or paths of files alone")
    found: list[dict[str, Any]] = []
    for group in remote_files(source.paths, source.format):
        has_tags = all(file.tag is not None for file in group)
        copies = [None] * len(group) if has_tags else copies_of(group)
        for file, copy in zip(group, copies, strict=True):
            known: dict[str, Any] = {"size": file.size, "tag": file.tag}
            if file.tag is None:
                known = {"sha256": file_sha256(str(copy), files)}
            found.append({"name": file.name, **known})
    return found


def _stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    """Stamps of files, and of those in folders, by path."""
    found: dict[str, Stamp | None] = {}
    for path in map(Path, paths):
        inside = sorted(path.iterdir()) if _is_folder(path) else [path]
        found |= {str(one): stamp_of(one) for one in inside if not _is_folder(one)}
    return found


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - names that are too long are none
