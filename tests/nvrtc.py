"""CUDA's run-time compiler by ctypes: from the wheel that the test extra brings, no GPU needed."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

import pytest


@cache
def _library() -> ctypes.CDLL | None:
    found = importlib.util.find_spec("nvidia")
    for folder in [] if found is None else found.submodule_search_locations or []:
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            if "builtins" not in path.name and "alt" not in path.name:
                return ctypes.CDLL(str(path))
    return None


def need_nvrtc() -> None:
    """Skip the test where the compiler is not installed."""
    if _library() is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed: install the test extra")


def compile_cuda(text: str, name: str, options: list[str]) -> tuple[str, bytes]:
    """Compile to machine code; the log, and the code (empty where compiling failed)."""
    library = _library()
    assert library is not None
    program = ctypes.c_void_p()
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), name.encode(), 0, None, None
    )
    assert made == 0, f"nvrtcCreateProgram gave {made}"
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), given)
        log = _text(library, program, "ProgramLog").rstrip(b"\0\n").decode()
        return log, _text(library, program, "CUBIN") if status == 0 else b""
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    room = ctypes.create_string_buffer(size.value)
    assert getattr(library, f"nvrtcGet{what}")(program, room) == 0
    return room.raw
