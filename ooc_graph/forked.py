"""What a forked child makes anew: of its parent's threads it has the one that forked, alone.

``os.fork`` copies memory as it is at that moment. Locks that other threads held stay closed, calls
that were given to them are never made, and what they were changing stays half done. The modules
that keep such things say here what becomes of them in a child. What cannot be made to work there
raises at once instead of waiting for ever.
"""

from __future__ import annotations

import fcntl
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import MethodType
from typing import Any, NoReturn, TypeAlias, TypeVar

from ooc_graph.errors import UsageError

_Call: TypeAlias = Callable[[], object]
Renewal = TypeVar("Renewal", bound=_Call)
Lock = TypeVar("Lock")

_ADVICE = "use multiprocessing's spawn or forkserver start method"

_functions: list[_Call] = []
_methods: weakref.WeakKeyDictionary[Any, Callable[[Any], object]] = weakref.WeakKeyDictionary()
_locks: weakref.WeakKeyDictionary[Any, _Call | None] = weakref.WeakKeyDictionary()
_descriptors: set[int] = set()
_parents: weakref.WeakSet[Any] = weakref.WeakSet()
_abandoned: list[object] = []
_half_imported: list[str] = []


def in_child(renew: Renewal) -> Renewal:
    """Have every forked child call a function; or a method, as long as its object lives.

    It is called before anything else is done there, with all locks of `free_in_child` free.
    """
    if isinstance(renew, MethodType):
        _methods[renew.__self__] = renew.__func__
    else:
        _functions.append(renew)
    return renew


def free_in_child(lock: Lock, half_done: _Call | None = None) -> Lock:
    """Return a lock of `threading` that is free in every forked child.

    If it was held at the fork, a child calls ``half_done`` for what it guards.
    """
    _locks[lock] = half_done
    return lock


@contextmanager
def not_inherited(descriptor: int) -> Iterator[None]:
    """Context in which forked children do not keep a file open, and so a lock on it held."""
    _descriptors.add(descriptor)
    try:
        yield
    finally:
        _descriptors.discard(descriptor)


POLL_S = 0.05


def locked_in_time(descriptor: int, patience_s: float) -> bool:
    """Lock an open file for this process alone; False if another had it for too long."""
    begun_s = monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() - begun_s >= patience_s:
                return False
            sleep(POLL_S)
        else:
            return True


def abandon(thing: object) -> None:
    """Keep what is the parent's alone, so that nothing in this child frees it."""
    _abandoned.append(thing)


def is_parents(thing: object) -> bool:
    """Whether a Dask client or worker belongs to a process that this one was forked from."""
    return thing in _parents


def require_own_client(
    client: object, advice: str = f"open a client in this process, or {_ADVICE}"
) -> None:
    """Refuse a Dask client of the parent, whose event loop runs there alone: calls never end."""
    if is_parents(client):
        raise UsageError(
            "this process was forked after its Dask client was opened, which works in the parent "
            f"alone: {advice}"
        )


def require_whole_imports() -> None:
    """Refuse to import more if another thread was importing at the fork: it would never end."""
    if _half_imported:
        _refuse("importing ooc_graph")


def _refuse(doing: str) -> NoReturn:
    raise UsageError(
        f"this process was forked while another thread was {doing}, which cannot be completed "
        f"here: fork after that, or {_ADVICE}"
    )


def _begin_anew() -> None:
    """In a forked child, before anything else."""
    _note_parents()
    _note_imports()
    _refuse_compiling()
    _renew_dasks_thread()
    while _descriptors:
        os.close(_descriptors.pop())
    half_done = [call for lock, call in _locks.items() if _was_locked(lock) and call is not None]
    for function in [*_functions, *half_done]:
        function()
    for thing, method in _methods.items():
        method(thing)
    _leave_dasks_processes()


def _was_locked(lock: Any) -> bool:
    """Whether a lock was held at the fork; it is free now, unless this thread holds it itself."""
    if hasattr(lock, "_is_owned") and lock._is_owned():
        return True
    was_free = lock.acquire(blocking=False)
    lock._at_fork_reinit()
    return not was_free


def _note_parents() -> None:
    dask = sys.modules.get("distributed")
    for kind in ("Client", "Worker"):
        _parents.update(getattr(getattr(dask, kind, None), "_instances", ()))


def _note_imports() -> None:
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name.startswith("ooc_graph.") and getattr(spec, "_initializing", False):
            _half_imported.append(name)


class _Refusing:
    """Stands for numba's lock if the thread that held it is not there."""

    def acquire(self) -> NoReturn:
        _refuse("compiling kernels")


def _refuse_compiling() -> None:
    """Have numba's compiler raise if it was at work; what is compiled can be called."""
    numba = sys.modules.get("numba.core.compiler_lock")
    lock = getattr(numba, "global_compiler_lock", None)
    if lock is not None and not isinstance(lock._lock, _Refusing):
        if lock._lock.acquire(blocking=False):
            lock._lock.release()
        else:
            lock._lock = _Refusing()


def _renew_dasks_thread() -> None:
    """Give Dask, which pickles in a thread of its own, one in this process too."""
    dask: Any = sys.modules.get("distributed.utils")
    executor = getattr(dask, "_offload_executor", None)
    if executor is not None:
        abandon(executor)
        dask._offload_executor = type(executor)(1, "Dask-Offload")


def _leave_dasks_processes() -> None:
    """Have Dask not ask, at this process' end, for workers that its parent started: it may not."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        of = finalizer.peek()
        if of is not None and getattr(of[1], "__module__", "") == "distributed.process":
            finalizer.detach()


os.register_at_fork(after_in_child=_begin_anew)
