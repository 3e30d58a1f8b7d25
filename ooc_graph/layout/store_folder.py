"""Folders of stores, each of which appears whole; a run that was stopped is continued.

What such a folder was begun with is recorded in it as the key of checkpoints. A store in it is the
record of its own: work whose store stands there is done.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ooc_graph.errors import CorruptStoreError, OutputExistsError
from ooc_graph.layout.checkpoints import ATTEMPT, SPILL, Checkpoints, key_of
from ooc_graph.layout.commit import rename_durably
from ooc_graph.layout.keys import differing, key_for
from ooc_graph.layout.kinds import kind_of
from ooc_graph.layout.locks import locked
from ooc_graph.layout.outputs import ID_LENGTH, make_folder, refuse_folder, refuse_long_name
from ooc_graph.layout.whole_file import disk_full_reported


def refuse_other_folder(folder: Path, begun_with: Mapping[str, str], overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or that was not begun with the same.

    OutputExistsError, UsageError: ``overwrite`` allows one that was begun with something else.
    CorruptStoreError: nobody knows with what.
    """
    refuse_long_name(folder)
    refuse_folder(folder)
    if kind_of(folder) is not None:
        raise OutputExistsError(f"{folder}: is a store, not a folder of stores; give another name")
    there, spill = key_of(folder), folder / SPILL
    unknown = (
        f"so that nobody knows what the stores in {folder.name} were begun with; remove the "
        "folder, or give another one"
    )
    if not there:
        is_free = not folder.is_symlink() and not folder.exists()
        # A run that was stopped before it wrote the key has left its own folder.
        if not is_free and not (folder.is_dir() and {p.name for p in folder.iterdir()} <= {SPILL}):
            if spill.is_dir():
                raise CorruptStoreError(f"{spill / 'key'}: is missing, {unknown}")
            raise OutputExistsError(
                f"{folder}: is no folder of stores that may be added to; give a new or an empty one"
            )
        return
    try:
        other = differing(there, begun_with)
    except (TypeError, ValueError):
        raise CorruptStoreError(f"{spill / 'key'}: is damaged, {unknown}") from None
    if other and not overwrite:
        raise OutputExistsError(
            f"{folder}: was begun with another {' and another '.join(other)}; give another folder, "
            "or --overwrite to replace what is there"
        )


@contextmanager
def store_folder(folder: Path, begun_with: Mapping[str, str], *, overwrite: bool) -> Iterator[Path]:
    """Context in which one run writes stores to a folder; yields the folder of its attempt.

    Stores are made with `store_within`. Those that are there stay if they were ``begun_with`` the
    same, and go if not, which ``overwrite`` has to allow; errors are those of
    `refuse_other_folder`, and OutputBusyError if another run is at it.
    """
    run_id, key = uuid.uuid4().hex[:ID_LENGTH], key_for(begun_with)
    kept = f"finished stores in {folder.name} stay, and the same command makes the others"
    with disk_full_reported(folder, kept), locked(folder, run_id):
        refuse_other_folder(folder, begun_with, overwrite)
        removed = folder / f"{ATTEMPT}{run_id}-removed"
        make_folder(removed)
        if key_of(folder) not in (None, key):
            # Before the new key stands there. What is left of earlier attempts goes with them.
            for store in [path for path in folder.iterdir() if kind_of(path) == "result"]:
                store.rename(removed / store.name)
        attempt = Checkpoints(folder, run_id, key).attempt
        try:
            yield attempt
        finally:
            shutil.rmtree(attempt, ignore_errors=True)


@contextmanager
def store_within(attempt: Path, final: Path) -> Iterator[Path]:
    """Context in which a store is made, in the folder of an attempt; then it gets its final path.

    The context yields where. FileNotFoundError: the run is over. Two workers may make the same
    store, if one was taken for lost: the later one replaces the same bytes.
    """
    with TemporaryDirectory(dir=attempt) as scratch:
        made = Path(scratch) / final.name
        yield made
        rename_durably(made, final)
