"""What leaves a public function: errors of this package, each with its cause."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ooc_graph import errors
from ooc_graph.awaiting import asynchronous_client, in_thread, refuse_left
from ooc_graph.forked import require_whole_imports
from ooc_graph.raised import as_raised
from ooc_graph.threads import is_refusal

_LOOP_CLOSED = ("IOLoop is clos", "Event loop is closed")

Given = ParamSpec("Given")
Done = TypeVar("Done")


_for_command: ContextVar[bool] = ContextVar("ooc_graph_for_command", default=False)


@contextmanager
def for_command() -> Iterator[None]:
    """Context of a command, whose errors name its options."""
    before = _for_command.set(True)
    try:
        yield
    finally:
        _for_command.reset(before)


def is_for_command() -> bool:
    """Whether a command makes the call."""
    return _for_command.get()


def public(function: Callable[Given, Done]) -> Callable[Given, Done]:
    """Have a function raise errors of this package only, and await asynchronous clients.

    Errors become those of `ooc_graph.raised`.
    """

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Done:
        try:
            with own_errors():
                require_whole_imports()
                try:
                    return function(*args, **kwargs)
                except TypeError as error:
                    # It was raised by the call itself, and not inside of the function.
                    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                        raise _of_arguments(function, error, kwargs) from None
                    raise
        except errors.OocGraphError as error:
            if is_for_command():
                raise
            raised = as_raised(error)
        try:
            raise raised
        finally:
            # Its traceback has this frame: nothing that the frames hold would be freed at once.
            del raised

    return _or_awaitable(called) if "client" in (function.__kwdefaults__ or ()) else called


def _or_awaitable(called: Callable[Given, Done]) -> Callable[Given, Done]:
    """The function, or a coroutine that does the same for callers with an asynchronous client."""

    @wraps(called)
    def dispatched(*args: Given.args, **kwargs: Given.kwargs) -> Done:
        client = asynchronous_client(kwargs.get("client"))
        if client is None:
            return called(*args, **kwargs)
        return _awaitable(client, called, args, kwargs)  # type: ignore[return-value]

    return dispatched


async def _awaitable(
    client: Any, called: Callable[..., Done], args: tuple[Any, ...], options: dict[str, Any]
) -> Done:
    """What a function returns that is called with a synchronous client in place of this one."""
    # One that was not given is the current one there, too.
    is_given = options.get("client") is not None

    def call(own: Any) -> Done:
        return called(*args, **(options | {"client": own} if is_given else options))

    try:
        with own_errors():
            refuse_left(options)
            return await in_thread(client, call)
    except errors.OocGraphError as error:
        raise as_raised(error) from error.__cause__


def _of_arguments(
    function: Callable[..., Any], error: TypeError, given: dict[str, Any]
) -> errors.ArgumentError:
    """What is wrong with the arguments of a call; an unknown one may be misspelt."""
    # Nobody else needs them, and they take long to import.
    from difflib import get_close_matches  # noqa: PLC0415
    from inspect import signature  # noqa: PLC0415

    known = list(signature(function).parameters)
    unknown = next((name for name in given if name not in known), None)
    if unknown is None or f"'{unknown}'" not in str(error):
        return errors.ArgumentError(str(error))
    close = get_close_matches(unknown, known, 1)
    guess = f"did you mean {close[0]}? There" if close else "there"
    return errors.ArgumentError(
        f"{function.__name__}() has no argument {unknown}: {guess} are {', '.join(known)}"
    )


@contextmanager
def own_errors(*others: type[Exception]) -> Iterator[None]:
    """Context whose errors are this package's, with what was raised as their cause.

    ClusterLostError for whatever Dask raises if processes or connections are gone,
    MemoryBudgetError for memory and threads that the system refuses, UsageError if it allows no
    more open files or no such path, DiskFullError and StorageError for all else that it says of
    files, and UnexpectedError for the rest. Errors of the ``others`` are raised as they are.
    """
    try:
        yield
    except Exception as error:
        # Warnings are raised if the caller has made errors of them.
        if isinstance(error, (errors.OocGraphError, Warning, *others)):
            raise
        raise _own(error) from error


def _own(error: Exception) -> errors.OocGraphError:
    said = " ".join(str(error).split())
    if _is_of_a_lost_cluster(error):
        return errors.ClusterLostError(
            "the Dask cluster lost its scheduler, too many workers, or its client "
            f"({said or type(error).__name__}); run the same again"
        )
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_refusal(error)):
        why = f" ({said})" if said else ""
        return errors.MemoryBudgetError(
            f"the system refuses memory{why}: free some, or give a smaller memory limit"
        )
    if isinstance(error, OSError):
        return _of_system(error, said)
    if type(error) is ValueError and said == "embedded null byte":
        # Python says so of paths, and names none.
        return errors.UsageError("a path has a null character in it, which no file's name may have")
    if isinstance(error, UnicodeEncodeError):
        return errors.UsageError(f"a path or a name has what no file's name may have ({said})")
    return errors.UnexpectedError(
        f"{type(error).__name__}: {said} (if the call is as documented, this is a defect of "
        "ooc_graph: please report it with its traceback)"
    )


def _of_system(error: OSError, said: str) -> errors.OocGraphError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return errors.UsageError(f"the system allows no more open files ({said}): raise ulimit -n")
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        name = f"{error.filename}: {error.strerror}"
        return errors.UsageError(said if error.filename is None else name)
    is_full = error.errno in errors.DISK_FULL_ERRNOS
    advice = "; free some space and run the same again"
    return errors.DiskFullError(said + advice) if is_full else errors.StorageError(said)


def _is_of_a_lost_cluster(error: Exception) -> bool:
    """Whether Dask, tornado or a pool of threads says so that processes or connections are gone."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None or getattr(error, "filename", None) is not None:
        return False
    client: Any = sys.modules["distributed.client"]
    lost = (
        distributed.CancelledError,
        client.ClosedClientError,
        distributed.KilledWorker,
        distributed.comm.CommClosedError,
        ConnectionAbortedError,
        ConnectionRefusedError,
        ConnectionResetError,
        TimeoutError,
    )
    # asyncio and tornado have no kinds of their own for these.
    is_loop = isinstance(error, RuntimeError) and str(error).startswith(_LOOP_CLOSED)
    return isinstance(error, lost) or is_loop
