"""Make a store appear whole or not at all.

A store is written under ``NAME.partial-<run id>/`` beside its final place; when every file and
folder is on disk it is renamed. ``NAME.lock`` is held meanwhile, so that a second run on the same
output is refused at once; what a killed run left behind is removed by the next one, or taken up by
it if the work was recorded in checkpoints (`ooc_graph.layout.checkpoints`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ooc_graph.layout.checkpoints import Checkpoints, Keeps, always, key_of
from ooc_graph.layout.chunks import FileEntry, make_folders
from ooc_graph.layout.digests import digest_of
from ooc_graph.layout.locks import locked
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.metadata import ArraySpec, group_document, parent_groups
from ooc_graph.layout.names import ASIDE, MANIFEST, REMOVED, sidecar_path
from ooc_graph.layout.outputs import ID_LENGTH, refuse_existing, refuse_output
from ooc_graph.layout.whole_file import (
    disk_full_reported,
    raise_if_full,
    sync_file,
    sync_folder,
    sync_folders,
    write_durably,
)

_RENAME_EXCHANGE = 2
_LIBC = ctypes.CDLL(None)
_AT_FDCWD = -100


class Partial:
    """A store that is being written; the attempt is named by ``run_id``."""

    def __init__(self, final: Path, run_id: str) -> None:
        self.final, self.run_id = final, run_id
        self.checkpoints: Checkpoints | None = None
        self.other_keys: list[str] = []  # of what earlier runs left, and this one does not use
        self.before_commit: Callable[[], None] = lambda: None  # raises to refuse it
        self.folder = final.with_name(f"{final.name}.partial-{run_id}")
        self.spill = self.folder / "spill"

    def commit(
        self,
        kind: str,
        attributes: Mapping[str, Any],
        specs: Iterable[ArraySpec],
        chunks: Iterable[FileEntry],
    ) -> Manifest:
        """Write metadata and manifest, bring everything to disk, and rename into place.

        Checkpoints stay recorded until nothing is left that could want space: a run that ends
        before the renames is taken up with all of them.
        """
        self.before_commit()
        specs, chunks = list(specs), list(chunks)
        for chunk in chunks:
            sync_file(self.folder / chunk.path)
        if self.checkpoints is None:
            # Nobody takes up what lies there, and the documents may need the space.
            shutil.rmtree(self.spill, ignore_errors=True)
            if self.spill.exists():  # it would be in the store
                shutil.rmtree(self.spill)
        entries = [*chunks, *self._write_documents(attributes, specs)]
        entries += self._write_sidecars(specs, {entry.path: entry for entry in chunks})
        self._remove_strays(entries)
        manifest = Manifest.of(kind, entries)
        write_durably(self.folder / MANIFEST, manifest.encode())
        sync_folders(self.folder)
        with self._without_spill():
            rename_durably(self.folder, self.final)
        return manifest

    def _remove_strays(self, entries: Iterable[FileEntry]) -> None:
        """Remove what tasks left half written, of workers that were taken for lost."""
        wanted = {self.folder / entry.path for entry in entries}
        for folder, _, names in os.walk(self.folder):
            if not Path(folder).is_relative_to(self.spill):
                for path in {Path(folder, name) for name in names} - wanted:
                    path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _without_spill(self) -> Iterator[None]:
        """Context in which the records are aside; they are removed, or come back if it fails."""
        if self.checkpoints is None:
            yield
            return
        # In one step, as half of the records would stand for less than was done.
        aside = self.spill.rename(_removed_name(self.final))
        ours = self.folder.stat()
        try:
            sync_folder(self.folder)
            yield
        except BaseException:
            if self.folder.exists() and os.path.samestat(ours, self.folder.stat()):
                with contextlib.suppress(OSError):
                    aside.rename(self.spill)
            else:
                # The store has its name: there is nothing to go on with, and what is by the name
                # of the partial one is the store that it replaced.
                _remove(aside, self.final)
                _remove(self.folder, self.final)
            raise
        _remove(aside, self.final)

    def _write_documents(
        self, attributes: Mapping[str, Any], specs: list[ArraySpec]
    ) -> list[FileEntry]:
        documents = {"zarr.json": group_document(attributes)}
        for spec in specs:
            documents |= {f"{one}/zarr.json": group_document() for one in parent_groups(spec.path)}
            documents[f"{spec.path}/zarr.json"] = spec.document()
        return [self._write(path, content) for path, content in documents.items()]

    def _write_sidecars(
        self, specs: list[ArraySpec], chunks: Mapping[str, FileEntry]
    ) -> list[FileEntry]:
        return [
            self._write(
                sidecar_path(spec.path),
                b"".join(
                    crc.to_bytes(4, "little")
                    for index in range(spec.chunks)
                    for crc in chunks[spec.chunk_path(index)].sidecar
                ),
            )
            for spec in specs
        ]

    def _write(self, path: str, content: bytes) -> FileEntry:
        make_folders(self.folder, (self.folder / path).parent)
        write_durably(self.folder / path, content)
        return FileEntry(path, len(content), digest_of(content))


@contextlib.contextmanager
def partial_store(
    final: Path, kind: str, *, overwrite: bool, key: str | None = None, keeps: Keeps = always
) -> Iterator[Partial]:
    """Context in which a store is written; whatever happens, no half of it stays behind.

    Unless it has a ``key``, which the bytes of all checkpoints follow from: then the partial store
    has checkpoints, stays if some are done when the run ends before its time by an error that
    ``keeps`` them, and is taken up by the next run with the same key. ``overwrite`` allows to
    replace a store of the same ``kind``.

    OutputExistsError: ``final`` is there, or would be inside a store; OutputBusyError: another run
    is writing it; UsageError: nothing can be written there, or its name is too long.
    """
    final = Path(os.path.abspath(final))  # noqa: PTH100 - links stay as they are
    refuse_output(final, kind, overwrite)
    run_id = uuid.uuid4().hex[:ID_LENGTH]
    is_kept = key is not None and keeps(OSError(errno.ENOSPC, ""))
    resumed = f"the same command continues with what there is of {final.name}"
    with disk_full_reported(final, resumed if is_kept else None), locked(final, run_id):
        left = left_by(final)
        kept = next((path for path in left if left[path] == key), None)
        _remove_leftovers(final, kept)
        # Another run may have finished while this one had not yet taken the lock.
        refuse_existing(final, kind, overwrite)
        partial = Partial(final, run_id if kept is None else kept.name.rpartition("-")[2])
        partial.other_keys = [] if kept else [*left.values()]
        try:
            make_folders(final.parent, partial.spill)
            if key is not None:
                partial.checkpoints = Checkpoints(partial.folder, run_id, key)
            yield partial
        except BaseException as error:
            done = kept if partial.checkpoints is None else partial.checkpoints
            if not (done and keeps(error)):
                _remove(partial.folder, final)
                raise_if_full(error, final)
            raise
        _remove(partial.folder, final)


def left_by(final: Path) -> dict[Path, str]:
    """What earlier runs left behind, with their keys; not what was about to be removed."""
    removed = final.name + REMOVED
    left = (path for path in _siblings(final, ".partial-") if not path.name.startswith(removed))
    return {path: key for path in left if (key := key_of(path)) is not None}


def _remove_leftovers(final: Path, kept: Path | None) -> None:
    # If stores cannot be exchanged, a run killed between two renames left the old one aside.
    for aside in _siblings(final, ASIDE):
        if not final.exists() and not final.is_symlink():
            aside.rename(final)
    for left in _siblings(final, ".partial-"):
        if left != kept:
            _remove(left, final)


def _siblings(final: Path, suffix: str) -> list[Path]:
    # A pattern would be compiled and kept for each store.
    there = os.scandir(final.parent) if final.parent.is_dir() else ()
    names = [entry.name for entry in there if entry.name.startswith(final.name + suffix)]
    return sorted(final.parent / name for name in names)


def _remove(path: Path, final: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # What a task still writes by its old name fails, and is not left behind.
        with contextlib.suppress(OSError):
            path = path.rename(_removed_name(final))
        try:
            shutil.rmtree(path, ignore_errors=True)
        except BaseException:
            # A second signal, as schedulers send it: what is begun is finished first.
            shutil.rmtree(path, ignore_errors=True)
            raise
    else:
        path.unlink(missing_ok=True)


def _removed_name(final: Path) -> Path:
    """A new name beside ``final`` for what is about to be removed."""
    return final.with_name(f"{final.name}{REMOVED}{uuid.uuid4().hex[:ID_LENGTH]}")


def rename_durably(partial: Path, final: Path) -> None:
    """Rename; an existing store is exchanged in one step, so that there is always one."""
    if final.exists() or final.is_symlink():
        _exchange(partial, final)
    else:
        partial.rename(final)
    sync_folder(final.parent)


def _exchange(first: Path, second: Path) -> None:
    """renameat2(2) with RENAME_EXCHANGE; two renames if the file system cannot."""
    if hasattr(_LIBC, "renameat2"):
        arguments = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
        if _LIBC.renameat2(*arguments, _RENAME_EXCHANGE) == 0:
            return
    aside = second.with_name(f"{second.name}{ASIDE}{uuid.uuid4().hex[:ID_LENGTH]}")
    second.rename(aside)
    first.rename(second)
    aside.rename(first)
