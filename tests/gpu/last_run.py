"""What was last tested on a GPU, and whether that is still what stands here.

    python -m tests.gpu.last_run

says which device there is, or ends with an error where there is none.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime.modules import cuda

ROOT = Path(__file__).parents[2]
LAST_RUN = Path(__file__).with_name("last_run.json")
# What runs on a device only. What runs without one as well has tests of its own.
HASHED = (
    "ooc_graph/**/*.cu*",
    "ooc_graph/kernels/cuda/**/*.py",
    "ooc_graph/*/cuda_*.py",
    "ooc_graph/sinks/device_columns.py",
    "ooc_graph/graph500/on_device.py",
    "tests/gpu/*.py",
)


# Of `tests/gpu` what the tests and the sanitizer's programs share. Each file of tests has a hash of
# its own: a change in one says nothing of what others found.
TESTS_ALONE = "test_*.py", "conftest.py", "last_run.py"
TESTS, SANITIZER = "tests", "sanitizer"


def sources_sha256() -> str:
    """SHA-256 over what GPU code means, and what tests and sanitized programs share."""
    paths = {path for pattern in HASHED for path in ROOT.glob(pattern)}
    meanings = [
        meaning_sha256(path)
        for path in paths
        if path.parent != LAST_RUN.parent or not any(path.match(alone) for alone in TESTS_ALONE)
    ]
    return hashlib.sha256("\n".join(sorted(meanings)).encode()).hexdigest()


def test_files() -> dict[str, str]:
    """SHA-256 of what each file of tests means, by its name."""
    paths = sorted(LAST_RUN.parent.glob("test_*.py"))
    return {path.name: meaning_sha256(path) for path in paths}


_INCLUDE = re.compile(rb'(#include ")(?:\w+/)*')


@cache
def meaning_sha256(path: Path) -> str:
    """SHA-256 of a file that stays the same if it, or what it imports, only moves.

    Of Python the syntax tree, the same in every version of Python, less imports and docstrings; of
    CUDA the bytes, less the folders of headers.
    """
    data = path.read_bytes()
    if path.suffix == ".py":
        data = "\n".join(_meaning(ast.parse(data))).encode()
    else:
        data = _INCLUDE.sub(rb"\1", data)
    return hashlib.sha256(data).hexdigest()


def _meaning(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        yield "["
        for each in node:
            yield from _meaning(each)
        yield "]"
    elif not isinstance(node, ast.AST):
        yield repr(node)
    elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not _is_text(node):
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            # Newer versions have more fields, which are empty here.
            if value is not None and value != []:
                yield name
                yield from _meaning(value)


def _is_text(node: ast.AST) -> bool:
    """Whether it is a string that stands alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def read() -> dict[str, Any]:
    """The last record; nothing where there is none."""
    return json.loads(LAST_RUN.read_text()) if LAST_RUN.exists() else {}


def files_of_these_sources() -> dict[str, Any]:
    """How the tests of each file ended, if the last record is of the sources that stand here."""
    record = read().get(TESTS, {})
    found: dict[str, Any] = record.get("files", {})
    return found if record.get("sources_sha256") == sources_sha256() else {}


def write(part: str, found: dict[str, Any], path: Path = LAST_RUN) -> None:
    """Record ``tests`` or ``sanitizer``, each with the hash of the sources that it ran."""
    record = json.loads(path.read_text()) if path.exists() else {}
    record[part] = {**found, **circumstances(), "sources_sha256": sources_sha256()}
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def circumstances() -> dict[str, Any]:
    """Date, device and versions."""
    cupy = cuda()
    device = cupy.cuda.Device().id
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": cupy.cuda.runtime.getDeviceProperties(device)["name"].decode(),
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "nvrtc": list(cupy.cuda.nvrtc.getVersion()),
        "cupy": cupy.__version__,
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
        "python": platform.python_version(),
    }


def main() -> None:
    try:
        sys.stdout.write(f"testing on {circumstances()['device']}\n")
    except DeviceError as error:
        sys.exit(f"nothing was tested: {error}")


if __name__ == "__main__":
    main()
