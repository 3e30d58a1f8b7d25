"""CUDA sources to machine code by CUDA's run-time compiler, once a machine: a file is kept.

CuPy would do so too, but adds an option that takes floats below 2**-126 for zero [1]_, and our
distances have the bits of the CPU's.

References
----------
.. [1] CUDA, NVRTC: option ``--ftz``.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from ooc_graph.errors import DeviceError

_KERNELS = Path(__file__).parents[1]
SOURCES = {path.name: path for path in _KERNELS.rglob("*.cu*")}
"""CUDA sources and their headers by name, which is enough to include one."""
_INCLUDE = re.compile(r'#include "([\w.]+)"')


def source(name: str) -> str:
    """Text of a ``.cu`` file with its headers in place, each where it is included first.

    What is kept on disk is found by the text that was compiled, so that a changed header is seen.
    ``#line`` lets the compiler's messages name our files.
    """
    return "\n".join(_lines(name, set())) + "\n"


def _lines(name: str, included: set[str]) -> Iterator[str]:
    included.add(name)
    path = SOURCES[name]
    shown = f"ooc_graph/kernels/cuda/{path.relative_to(_KERNELS).as_posix()}"
    yield f'#line 1 "{shown}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := _INCLUDE.fullmatch(line):
            if found[1] not in included:
                yield from _lines(found[1], included)
            yield f'#line {number + 1} "{shown}"'
        else:
            yield "" if line == "#pragma once" else line


def compiled(nvrtc: Any, text: str, name: str, options: tuple[str, ...]) -> Path:
    """File with the machine code of a source; compiled if it is not kept yet.

    It lies in the user's cache folder, under a hash over the source (its headers in place), the
    options (with the architecture) and the compiler, and one over itself: the driver would crash on
    a damaged file. It may be deleted at any time. If it cannot be kept, each process has its own.
    ``nvrtc`` is CuPy's module, and ``name`` what the compiler's messages say. An architecture that
    the compiler does not know is a `DeviceError`.
    """
    asked = f"{Path(name).stem}-{_hash(repr((text, options, nvrtc.getVersion())).encode())}"
    folder = Path(platformdirs.user_cache_dir("ooc_graph")) / "cuda"
    with suppress(OSError):
        for kept in folder.glob(f"{asked}-*.cubin"):
            if kept.name == _file_name(asked, kept.read_bytes()):
                return kept
    code = _compile(nvrtc, text, name, options)
    file = _file_name(asked, code)
    with suppress(OSError):
        return _write(folder / file, code)
    return _write(Path(_own_folder()) / file, code)


def _file_name(asked: str, code: bytes) -> str:
    return f"{asked}-{_hash(code)}.cubin"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _compile(nvrtc: Any, text: str, name: str, options: tuple[str, ...]) -> bytes:
    program = nvrtc.createProgram(text, name, (), ())
    try:
        nvrtc.compileProgram(program, options)
        code: bytes = nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip()
        if "gpu-architecture" in log:
            raise DeviceError(
                f"CUDA's run-time compiler {nvrtc.getVersion()} does not know this device "
                f"({' '.join(log.split())}): install the CuPy of a newer CUDA, such as "
                "'ooc-graph[cuda13]'"
            ) from error
        raise RuntimeError(f"{name} cannot be compiled: {log}") from error
    finally:
        nvrtc.destroyProgram(program)
    return code


def _write(path: Path, code: bytes) -> Path:
    """Write a file that others may be reading or writing: all of it appears at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(code)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return path


@cache
def _own_folder() -> str:
    """Folder of this process, for machine code that cannot be kept."""
    folder = tempfile.TemporaryDirectory(prefix="ooc-graph-")
    _folders.append(folder)
    return folder.name


# Removed with the process.
_folders: list[tempfile.TemporaryDirectory[str]] = []
