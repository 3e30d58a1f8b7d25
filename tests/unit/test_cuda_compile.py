"""Machine code of CUDA sources is kept: once a machine, whole or not at all; without any GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime import compilation as cuda_compile
from ooc_graph.kernels.cuda.runtime.compilation import compiled
from tests.nvrtc import compile_cuda, need_nvrtc

SOURCE = 'extern "C" __global__ void twice(float* at) { at[threadIdx.x] += at[threadIdx.x]; }'
OPTIONS = ("-std=c++17", "-arch=sm_90")


class Nvrtc:
    """What CuPy offers of the compiler, by the compiler of the test extra."""

    NVRTCError = RuntimeError

    def __init__(self, version: tuple[int, int] = (13, 0)) -> None:
        self.version, self.compiles, self.open = version, 0, 0

    def getVersion(self) -> tuple[int, int]:
        return self.version

    def createProgram(self, text: str, name: str, headers: Any, names: Any) -> list[Any]:
        self.open += 1
        return [text, name]

    def compileProgram(self, program: list[Any], options: tuple[str, ...]) -> None:
        self.compiles += 1
        program += compile_cuda(*program, list(options))
        if not program[3]:
            raise RuntimeError

    def getCUBIN(self, program: list[Any]) -> bytes:
        return program[3]

    def getProgramLog(self, program: list[Any]) -> str:
        return program[2]

    def destroyProgram(self, program: list[Any]) -> None:
        self.open -= 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_nvrtc()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cuda_compile._own_folder.cache_clear()
    return tmp_path / "ooc_graph" / "cuda"


def test_compiled_once_a_source_and_options(folder: Path) -> None:
    nvrtc = Nvrtc()
    first = compiled(nvrtc, SOURCE, "twice.cu", OPTIONS)
    assert first.read_bytes().startswith(b"\x7fELF")
    assert first.parent == folder
    assert compiled(nvrtc, SOURCE, "twice.cu", OPTIONS) == first
    assert nvrtc.compiles == 1
    others = [
        compiled(nvrtc, SOURCE + "\n", "twice.cu", OPTIONS),
        compiled(nvrtc, SOURCE, "twice.cu", (*OPTIONS, "-lineinfo")),
        compiled(Nvrtc((13, 1)), SOURCE, "twice.cu", OPTIONS),
    ]
    assert len({first, *others}) == 4
    assert sorted(folder.iterdir()) == sorted([first, *others])
    assert nvrtc.open == 0


@pytest.mark.parametrize(
    "damage", [lambda code: code[: len(code) // 2], lambda code: b"\0" + code[1:]]
)
def test_a_damaged_file_is_compiled_again(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    nvrtc = Nvrtc()
    kept = compiled(nvrtc, SOURCE, "twice.cu", OPTIONS)
    code = kept.read_bytes()
    kept.write_bytes(damage(code))
    assert compiled(nvrtc, SOURCE, "twice.cu", OPTIONS).read_bytes() == code
    assert nvrtc.compiles == 2
    assert [path.read_bytes() for path in folder.iterdir()] == [code]


def test_subnormal_numbers_are_not_flushed(folder: Path) -> None:
    """The option makes other code of a float sum, so that it matters who adds it."""
    plain = compiled(Nvrtc(), SOURCE, "twice.cu", OPTIONS).read_bytes()
    assert plain == compiled(Nvrtc(), SOURCE, "a.cu", (*OPTIONS, "-ftz=false")).read_bytes()
    assert plain != compiled(Nvrtc(), SOURCE, "b.cu", (*OPTIONS, "-ftz=true")).read_bytes()


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file is in the way")
    nvrtc = Nvrtc()
    found = compiled(nvrtc, SOURCE, "twice.cu", OPTIONS)
    assert found.read_bytes().startswith(b"\x7fELF")
    assert folder not in found.parents


def test_nothing_half_written_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space"):
        compiled(Nvrtc(), SOURCE, "twice.cu", OPTIONS)
    assert list(folder.iterdir()) == []


def test_what_cannot_be_compiled_names_file_and_line() -> None:
    nvrtc = Nvrtc()
    with pytest.raises(RuntimeError, match=r"wrong\.cu\(2\)"):
        compiled(nvrtc, "\nnothing of the kind;", "wrong.cu", OPTIONS)
    assert nvrtc.open == 0


def test_a_device_newer_than_the_compiler() -> None:
    with pytest.raises(DeviceError, match="does not know this device"):
        compiled(Nvrtc(), SOURCE, "twice.cu", ("-arch=sm_999",))
