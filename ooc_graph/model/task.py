"""A search as it travels to the process that searches, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import CPU
from ooc_graph.model.trace import Course
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class Written:
    """An answer that was written into a partial store, or its columns; and what is said of it."""

    course: Course
    specs: tuple[ArraySpec, ...] = ()
    entries: tuple[FileEntry, ...] = ()
    columns: Mapping[str, AnyArray] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchTask:
    """A search as it travels to workers.

    Parameters
    ----------
    path, identity
        The graph's.
    kernel, root, method
        What to search, by original id, and how.
    folder
        The partial store, or None.
    device
        ``cpu`` or ``cuda``.
    arrays
        ``numpy``, or ``cupy`` for an answer that stays on the device.
    budget_bytes
        Memory for a search whose arcs stay in the store, of each worker if ranks search; or device
        memory for one whose rows are in host memory or in the store; 0 if all are brought into
        memory.
    copies
        Whether rows in memory may be kept in another form besides.
    pinned_bytes
        Pinned host memory that rows may go to where a CUDA device's is refused; None: any.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    may_stay
        Whether arcs may stay in the store where a CUDA device's memory, or pinned memory, is
        refused; not where there are ranks to go on with.
    pins_if_busy
        Whether rows go there also where others have the device's memory.
    """

    path: str
    identity: str
    kernel: str
    root: int
    folder: str | None
    method: str = ROWS
    device: str = CPU
    arrays: str = "numpy"
    budget_bytes: int = 0
    copies: bool = True
    pinned_bytes: int | None = None
    host_bytes: int | None = None
    may_stay: bool = True
    pins_if_busy: bool = False

    @property
    def parts(self) -> Path:
        """Where ranks leave their parts of an answer that is written."""
        return Path(self.folder or "") / "spill"
