"""Errors as public functions raise them: also of Python's own kinds, and in the words of Python.

Inside the package ``OSError`` and ``MemoryError`` are what the system says, and are handled as
such. So the errors here derive from them only where they leave it. Messages name the command's
options; who calls from Python reads arguments instead.
"""

from __future__ import annotations

import re

from ooc_graph import errors


class MemoryBudgetError(errors.MemoryBudgetError, MemoryError):
    """A `MemoryBudgetError` that is a ``MemoryError``."""


class OutputExistsError(errors.OutputExistsError, FileExistsError):
    """An `OutputExistsError` that is a ``FileExistsError``."""


class MissingFileError(FileNotFoundError, errors.MissingFileError):
    """A `MissingFileError` that is a ``FileNotFoundError``."""

    # In the other order Python would make a ValueError, which has less memory than an OSError.
    __init__ = errors.InputError.__init__
    __str__ = errors.InputError.__str__
    __reduce__ = errors.InputError.__reduce__


class NoStoreError(errors.NoStoreError, FileNotFoundError):
    """A `NoStoreError` that is a ``FileNotFoundError``."""


class StorageError(errors.StorageError, OSError):
    """A `StorageError` that is an ``OSError``."""


class DiskFullError(errors.DiskFullError, OSError):
    """A `DiskFullError` that is an ``OSError``."""


class NetworkError(errors.NetworkError, ConnectionError):
    """A `NetworkError` that is a ``ConnectionError``."""


class ClusterLostError(errors.ClusterLostError, TimeoutError):
    """A `ClusterLostError` that is a ``TimeoutError``: the patience is over."""


_KINDS: dict[type[errors.OocGraphError], type[errors.OocGraphError]] = {
    errors.MemoryBudgetError: MemoryBudgetError,
    errors.OutputExistsError: OutputExistsError,
    errors.MissingFileError: MissingFileError,
    errors.NoStoreError: NoStoreError,
    errors.StorageError: StorageError,
    errors.DiskFullError: DiskFullError,
    errors.NetworkError: NetworkError,
    errors.ClusterLostError: ClusterLostError,
}


def as_raised(error: errors.OocGraphError) -> errors.OocGraphError:
    """The error that a public function raises for one of this package: often the same object."""
    if (kind := _KINDS.get(type(error))) is not None:
        plain, error = error, kind(*error.args)
        error.args = plain.args
        error.__dict__.update(plain.__dict__)
        error.__cause__, error.__suppress_context__ = plain.__cause__, True
        error.__traceback__ = plain.__traceback__
        if isinstance(error, OSError) and isinstance(plain.__cause__, OSError):
            error.errno = plain.__cause__.errno
    error.args = tuple(map(_in_python, error.args))
    if isinstance(error, errors.InputError):
        error.problem, error.advice = in_python(error.problem), in_python(error.advice)
    return error


def _in_python(said: object) -> object:
    return in_python(said) if isinstance(said, str) else said


_FLAGS = {name: f"{name}=True" for name in ("overwrite", "directed", "compress")}
_FLAGS["unweighted"] = "weight=False"
# An option, perhaps with a value: one that is often advised, or what was given, before a colon.
_OPTION = re.compile(
    r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)"
    r"(?: (cpu|cuda|auto|hub|light|both|none|counted|edgelist|SOURCE,TARGET)\b| ([^ :]+)(?=:))?"
)


def in_python(text: str) -> str:
    """A message with arguments in place of the command's options.

    >>> in_python("--rows foo: choose hub, light or both; use --device cpu or --overwrite")
    "rows='foo': choose hub, light or both; use device='cpu' or overwrite=True"
    """
    return _OPTION.sub(_argument, text)


def _argument(option: re.Match[str]) -> str:
    name, value = option[1].replace("-", "_"), option[2] or option[3]
    if value is None:
        return _FLAGS.get(name, f"{name}=")
    if value == "SOURCE,TARGET":
        return "source= and target="
    is_python = value.lstrip("-").isdecimal() or value[0] == "'"
    return f"{name}={value if is_python else repr(value)}"
