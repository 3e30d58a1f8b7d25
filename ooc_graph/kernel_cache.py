"""Where compiled kernels are kept: the user's cache folder, keyed by version and source.

numba itself keys by CPU and writes atomically, but looks only at the file that a function stands
in; a changed callee or constant in another file would go unnoticed. So the folder's name carries
a hash over the package's version, those constants and all kernel sources. A folder that the user
chose (``NUMBA_CACHE_DIR``) is left alone.

No search needs the folder: if it is full, cannot be written or cannot be read, kernels are compiled
in each process, and a warning says so once.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar, cast

import numpy as np
import platformdirs
from llvmlite.binding import parse_assembly, parse_bitcode
from numba import __version__, config, njit, typeof, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime.nrt import rtsys
from numba.np.numpy_support import from_dtype, map_layout

from ooc_graph.forked import locked_in_time, not_inherited
from ooc_graph.garbage import uncollected

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = Path(__file__).resolve().parent
_COMPILED_FROM = (
    "__init__.py",
    "types.py",
    "atomics.py",
    "prefetch.py",
    "bits.py",
    "layout/packed_loops.py",
    "exchange/*_loops.py",
    "kernels/common/**/*.py",
    "kernels/cpu/**/*.py",
    "validate/**/*.py",
)
"""The package's version, constants that are compiled in, and the compiled functions."""


@cache
def source_hash(*patterns: str) -> str:
    """Hash over the package's version, the sources of all compiled functions, and other files."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    others = [path for pattern in patterns for path in sorted(_PACKAGE.glob(pattern))]
    for path in _sources() + others:
        digest.update(_content(path))
    return digest.hexdigest()[:16]


def whole_hash(*patterns: str) -> str:
    """`source_hash` with the sources of CUDA kernels: what the bytes of answers follow from."""
    return source_hash("kernels/**/*.cu*", *patterns)


def last_change() -> int:
    """When the newest of those sources was written, in ns: numba compiles again after that."""
    return max(path.stat().st_mtime_ns for path in _sources())


def _sources() -> list[Path]:
    return [path for pattern in _COMPILED_FROM for path in sorted(_PACKAGE.glob(pattern))]


def _content(path: Path) -> bytes:
    """Content of a source after its path in the package."""
    return path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes()


if not config.CACHE_DIR:
    _root = Path(platformdirs.user_cache_dir("ooc_graph"))
    config.CACHE_DIR = str(_root / f"numba-{__version__}-{source_hash()}")


_UNUSABLE = (OSError, EOFError, UnpicklingError)
"""What a folder raises that is full, cannot be written or read, or has half a file."""

_problems: list[BaseException] = []


def is_usable() -> bool:
    """Whether all that this process has compiled so far is kept."""
    return not _problems


def kept(dispatcher: Any) -> Any:
    """Keep what one of numba's dispatchers compiles, if it can be kept."""
    if hasattr(dispatcher, "py_func"):  # not if NUMBA_DISABLE_JIT is set
        dispatcher._cache = _Cache(dispatcher.py_func)  # type: ignore[no-untyped-call]
        dispatcher._cache.allocates = dispatcher.targetoptions.get("_nrt", True)
        # Kernels take no types of other packages, which numba would look for among all installed.
        dispatcher._compilation_chain_init_hook = lambda: None
        dispatcher.typeof_pyval = _type_of
        dispatcher._compile_for_args = uncollected()(dispatcher._compile_for_args)
    return dispatcher


def _type_of(value: Any) -> Any:
    """The type of an argument; numba itself imports ``numpy.ma``, to refuse its arrays."""
    if type(value) is np.ndarray:
        layout, is_fixed = map_layout(value), not value.flags.writeable
        return types.Array(from_dtype(value.dtype), value.ndim, layout, readonly=is_fixed)
    if isinstance(value, tuple):
        inside: Any = [_type_of(one) for one in value]
        return types.BaseTuple.from_types(inside, type(value))  # type: ignore[no-untyped-call]
    return typeof(value)  # type: ignore[no-untyped-call]


def compiled(function: Function) -> Function:
    """Compile a loop that is no search's kernel and allocates nothing: serial, kept, no GIL."""
    return cast(Function, kept(jit()(function)))


def subroutine(function: Function) -> Function:
    """Compile as part of the loops that call it; Python cannot call it."""
    return cast(Function, jit(no_cpython_wrapper=True)(function))


def small_part(function: Function) -> Function:
    """As a `subroutine`, always put in place of the call: its arrays are not passed on."""
    return cast(Function, jit(no_cpython_wrapper=True, forceinline=True)(function))


def jit(**options: Any) -> Any:
    """Decorator of numba, with the options that all compiled functions have."""
    decorator: Any = njit
    return decorator(**{"nogil": True, "_nrt": False, "no_cfunc_wrapper": True} | options)


_PATIENCE_S = 10.0  # nobody takes as long, unless the process is stopped

_InChosenFolder: Any = CompileResultCacheImpl._locator_classes[0]


class _Locator(_InChosenFolder):  # type: ignore[misc]
    """numba's for `config.CACHE_DIR`, but that it does not have to be written to be read.

    Nor would numba's next choice do, the folder of the sources: its name has no hash.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Impl(CompileResultCacheImpl):
    """numba's, but that the LLVM code beside a kernel's machine code is parsed if it is needed.

    That is if a kernel is compiled that calls this one. It takes longer than all other loading.
    """

    _locator_classes = [_Locator]  # noqa: RUF012 - as numba has it

    def reduce(self, cres: Any) -> Any:
        # Names that numba looks for of a kernel that is loaded: its entry, and places of constants.
        found = (
            one for one in cres.library._final_module.global_variables if not one.is_declaration
        )
        names = [one.name for one in found if one.name.startswith("_ZN08NumbaEnv")]
        names.append(cres.fndesc.llvm_cpython_wrapper_name)
        brief = "\n".join(f'@"{name}" = common global i64 0' for name in names)
        return parse_assembly(brief).as_bitcode(), super().reduce(cres)  # type: ignore[no-untyped-call]

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        brief, ((name, kind, (machine, code)), *others) = payload
        light = (name, kind, (machine, brief)), *others
        cres: Any = super().rebuild(target_context, light)  # type: ignore[no-untyped-call]
        cres.library._get_module_for_linking = cache(partial(parse_bitcode, code))
        return cres


class _Cache(FunctionCache):
    _impl_class = _Impl
    allocates: bool

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        if self._py_func.__closure__ is None:
            return *super()._index_key(sig, codegen), "brief"  # type: ignore[no-untyped-call]
        # numba would hash what a function encloses, and names compiled functions anew in each
        # process. The folder's name has the hash of all sources, so that a name is enough.
        return sig, codegen.magic_tuple(), self._py_func.__qualname__, "brief"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # numba would make its whole compiler ready before, which takes longer than the rest. What
        # was compiled needs its allocator at most; without it, the process would end at a symbol.
        if self.allocates:
            rtsys.initialize(target_context)
        with _going_on():
            found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            if found is not None:
                return found
        _import_compiler()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with _going_on():
            locator: Any = self._impl.locator
            locator.ensure_cache_path()
            # Of two that are saved at once, numba loses one, or takes it for the other.
            path = Path(locator.get_cache_path()) / "lock"
            with path.open("wb") as lock, not_inherited(lock.fileno()):
                with suppress(OSError):  # of a file system without locks
                    locked_in_time(lock.fileno(), _PATIENCE_S)
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]


@cache
def _import_compiler() -> None:
    """Import what numba compiles with, but not SciPy's linear algebra, which takes as long again.

    numba would, to see whether it is there. Whoever calls it imports it then. We hold numba's lock.
    """
    linear_algebra: Any = import_module("numba.np.linalg")
    ensure = linear_algebra.ensure_blas
    linear_algebra.ensure_blas = partial(import_module, "scipy")
    try:
        import_module("numba.np.arraymath")
    finally:
        linear_algebra.ensure_blas = ensure


@contextmanager
def _going_on() -> Iterator[None]:
    """Context in which a folder that cannot be used is no error; the first one warns."""
    try:
        yield
    except _UNUSABLE as error:
        _problems.append(error)
        if len(_problems) == 1:
            why = getattr(error, "strerror", None) or str(error) or "a file is damaged"
            warnings.warn(
                f"{config.CACHE_DIR}: compiled kernels cannot be kept here ({why}), so every "
                "process compiles them again; free some space, delete or repair the folder, or "
                "set NUMBA_CACHE_DIR to another one",
                RuntimeWarning,
                stacklevel=3,
            )
