"""One class per cause of failure, each with the exit code of the command.

Errors of calls and of input are ``ValueError``, too. What public functions raise for memory, files
and connections is also a ``MemoryError`` or an ``OSError`` (`ooc_graph.raised`).

Exit codes: 0 done, 1 failed, 2 refused input or usage, 3 no answer exists, 75 worth retrying, 143
stopped by SIGTERM or SIGHUP.
"""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of what a system says if a file cannot become larger."""


PINNED, DEVICE, HOST = "pinned host", "device", "host"
"""Kinds of memory, in the order in which a search on a CUDA device says what it lacks."""


def one_line(text: str) -> str:
    """Text as one line, with escapes for what does not print.

    Names and words in messages are those of files, which may hold anything that terminals obey.
    """
    if text.isprintable():
        return text
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


class OocGraphError(Exception):
    """Base of all errors that this package raises on purpose. The message is one line."""

    exit_code = 1

    def __str__(self) -> str:
        return one_line(super().__str__())


class FallbackWarning(UserWarning):
    """A call uses something slower: the CPU instead of a GPU, the store instead of memory."""


class UsageError(OocGraphError, ValueError):
    """The call cannot be carried out: options that exclude each other, unknown names."""

    exit_code = 2


class ArgumentError(UsageError, TypeError):
    """A public function was called with an unknown argument, or without a required one."""


class MissingLibraryError(UsageError, ImportError):
    """An optional library is not installed; the message says which extra installs it."""


class DeviceError(UsageError):
    """The requested device does not exist, or lacks a capability."""


class InputError(OocGraphError, ValueError):
    """An edge file or array cannot be read as what it should be.

    ``problem`` says what is wrong, as a short clause, and ``advice`` what was expected, or what to
    do. ``path`` is the file at fault, if any; ``line`` counts from 1 in the decompressed text.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        advice: str = "",
    ) -> None:
        self.problem, self.path, self.line, self.advice = problem, path, line, advice
        super().__init__(str(self))

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        if self.line is not None:
            where = f"{self.path or 'input'}:{self.line}: "
        return one_line(where + self.problem + (f" ({self.advice})" if self.advice else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments when Dask carries the error between processes."""
        kind = partial(type(self), path=self.path, line=self.line, advice=self.advice)
        return kind, (self.problem,)


class MissingFileError(InputError):
    """There is no such file."""


class JobError(InputError):
    """A job file cannot be carried out; the message has a line for each mistake."""

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.problem.split("\n")))


class NegativeWeightError(InputError):
    """SSSP was called on a graph that has negative weights."""


_SHOWN = 20
"""Vertices of a cycle in a message."""


class NegativeCycleError(OocGraphError, ValueError):
    """Some distances have no minimum: a cycle is negative.

    ``cycle`` has all its vertices in the order of its arcs; the last has an arc to the first. If
    there are many, the message shows only the first ones. ``weight`` is the exact sum of its
    weights, < 0; for floats, that sum rounded once.
    """

    exit_code = 3

    def __init__(self, cycle: list[int], weight: float, note: str = "") -> None:
        self.cycle, self.weight, self.note = cycle, weight, note
        shown = [str(vertex) for vertex in [*cycle, cycle[0]]]
        if len(cycle) > _SHOWN:
            shown[_SHOWN - 1 : -1] = ["..."]
        path = " -> ".join(shown)
        count = "1 arc" if len(cycle) == 1 else f"{len(cycle)} arcs"
        said = f"a cycle of {count} has the weight {weight}, so there are no shortest paths: {path}"
        super().__init__(said + (f" ({note})" if note else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the cycle when Dask carries the error between processes."""
        return type(self), (self.cycle, self.weight, self.note)


class ConvergenceError(OocGraphError):
    """PageRank did not converge: networkx's ``PowerIterationFailedConvergence``.

    After ``iterations`` the scores still changed by ``change`` in all, which is not less than
    ``wanted``.
    """

    exit_code = 3

    def __init__(self, iterations: int, change: float, wanted: float) -> None:
        self.iterations, self.change, self.wanted = iterations, change, wanted
        super().__init__(
            f"pagerank did not converge in {iterations} iterations: the last one changed the "
            f"scores by {change:.3g} in all, which is not below {wanted:.3g}; allow more "
            "iterations, or a larger tolerance"
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the numbers when Dask carries the error between processes."""
        return type(self), (self.iterations, self.change, self.wanted)


class NoPathError(OocGraphError):
    """No path leads from one vertex to the other."""

    exit_code = 3


class UnknownVertexError(InputError, KeyError):
    """The graph does not have a vertex that was given."""


class OutputExistsError(OocGraphError):
    """The output exists and ``overwrite`` was not given."""

    exit_code = 2


class CorruptStoreError(OocGraphError):
    """A stored file differs from the manifest; the message names file and chunk."""


class NotAStoreError(OocGraphError):
    """The path is not a finished store of this package."""

    exit_code = 2


class NoStoreError(NotAStoreError):
    """There is nothing at the path of a store."""


class ValidationFailedError(OocGraphError):
    """An answer breaks one of the rules of its kernel; the message names rule and vertex."""


class StorageError(OocGraphError):
    """The system refuses to read or write a file; its message names the file and the reason."""


class RunTakenOverError(OocGraphError):
    """Another run has taken over the folder of this one, which no longer writes there."""


class UnexpectedError(OocGraphError):
    """None of the other errors: most likely a defect of this package. The cause is attached."""


class MemoryBudgetError(OocGraphError):
    """The budget is smaller than the minimum; the message gives both in bytes."""

    exit_code = 2
    least_bytes, kind = 0, HOST
    lost = ""  # workers that a search had lost before

    def needing(self, least_bytes: int, kind: str = HOST) -> MemoryBudgetError:
        """The error, with the bytes that are needed at least, of a kind of memory."""
        self.least_bytes, self.kind = least_bytes, kind
        return self


class RetryableError(OocGraphError):
    """Something outside the job failed; the same command may succeed later."""

    exit_code = 75


class DiskFullError(RetryableError):
    """No space left while writing; what was committed before is intact."""


class NetworkError(RetryableError):
    """A file of an object store or a web server cannot be read now."""


class ClusterLostError(RetryableError):
    """Too few Dask workers are left to continue."""


class DeviceBusyError(RetryableError):
    """The device is suitable, but others use it, or too much of its memory."""


class OutputBusyError(RetryableError):
    """Another run is writing the same output; the message names it."""


class StoreReplacedError(RetryableError):
    """The store at the path was replaced since it was opened; open it again."""
