"""What a build of which finished parts are there has in common with the one that made them."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial as bind
from pathlib import Path

from ooc_graph import kernel_cache
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.checkpoints import DONE, SPILL, may_end_well
from ooc_graph.layout.commit import Partial, left_by, partial_store
from ooc_graph.layout.keys import key_for, say_changed
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.types import Progress

CPU, CUDA = "cpu", "cuda"

_hash_of: dict[str, Callable[..., str]] = {
    CPU: kernel_cache.source_hash,
    CUDA: bind(kernel_cache.whole_hash, "kernels/cuda/build/*.py", "kernels/cuda/runtime/*.py"),
}
_NOBODY_S = "none that is known again: "
_SLOT_BITS = 3


def begun_with(source: EdgeSource, options: BuildOptions, device: str = CPU) -> dict[str, str]:
    """What the parts of a build follow from; of a source that nothing tells, no other has it.

    Parts are others on a ``device`` of another kind.
    """
    identity = None if options.anew else source.identity()
    return {
        "source": identity or _NOBODY_S + uuid.uuid4().hex,
        "device": device,
        "options": f"{options.rows} {options.shards} {options.compress}",
        # Of the code that makes the parts.
        "version": _hash_of[device]("edges/*.py", "layout/*.py", "shards/*.py"),
    }


def is_begun(
    out: Path, source: EdgeSource, options: BuildOptions, device: str = CPU, part: str = ""
) -> bool:
    """Whether a build of the same was stopped that a device can continue.

    Of which a part is recorded whose name begins so.
    """
    known = key_for(begun_with(source, options, device))
    return any(
        key == known and any((left / DONE).glob(f"{part}*.json"))
        for left, key in left_by(out).items()
    )


@contextmanager
def writing(
    out: Path, source: EdgeSource, options: BuildOptions, progress: Progress, device: str = CPU
) -> Iterator[Partial]:
    """Context with the partial store of a build, and what the same one has finished before.

    That is said, and it is kept for the next one if this is stopped, but not if it fails otherwise.
    """
    known = begun_with(source, options, device)
    key, keeps = key_for(known), bind(goes_on, known)
    store = partial_store(out, "graph", overwrite=options.overwrite, key=key, keeps=keeps)
    with store as partial:
        tell(partial, known, progress)
        yield partial


def goes_on(known: Mapping[str, str], error: BaseException) -> bool:
    """Whether the same build may be continued that was ended by an error, or by a signal."""
    return not known["source"].startswith(_NOBODY_S) and may_end_well(error)


def tell(partial: Partial, known: Mapping[str, str], progress: Progress) -> None:
    """Say what is there of an earlier build, or why that is not used."""
    if partial.checkpoints:
        done = len(partial.checkpoints)
        progress.note(f"going on: {done:,} parts of this build were finished before")
    say_changed((key for key in partial.other_keys if _NOBODY_S not in key), known, progress)


def run_folder(spill: Path, slot_bytes: int) -> tuple[str, int]:
    """Where runs are in the partial store, and the bytes of a slot that they were cut by.

    Those of an earlier attempt, if its slots were no larger than these, which a task may fill. A
    slot has a round number of bytes, as free memory is never the same twice.
    """
    slot_bytes &= -1 << max(0, slot_bytes.bit_length() - _SLOT_BITS)
    for left in spill.glob("runs-*"):
        before = int(left.name.removeprefix("runs-"))
        if before <= slot_bytes:
            slot_bytes = before
        else:
            shutil.rmtree(left, ignore_errors=True)
    return f"{SPILL}/runs-{slot_bytes}", slot_bytes
