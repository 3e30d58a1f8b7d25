"""What was last tested on a GPU, and whether that is still what stands here.

    python -m tests.gpu.last_run

says which device there is, or ends with an error where there is none.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda_modules import cuda

ROOT = Path(__file__).parents[2]
LAST_RUN = Path(__file__).with_name("last_run.json")
# What runs on a device only. What runs without one as well has tests of its own.
HASHED = (
    "ooc_graph/*/cuda/*.cu*",
    "ooc_graph/*/cuda_*.py",
    "ooc_graph/session/device_answer.py",
    "ooc_graph/session/graph500_cuda.py",
    "tests/gpu/*.py",
)


# Of `tests/gpu` what the tests and the sanitizer's programs share. Each file of tests has a hash of
# its own: a change in one says nothing of what others found.
TESTS_ALONE = "test_*.py", "conftest.py", "last_run.py"
TESTS, SANITIZER = "tests", "sanitizer"


def sources_sha256() -> str:
    """SHA-256 over names and bytes of GPU code, and of what tests and sanitized programs share."""
    digest = hashlib.sha256()
    paths = {path for pattern in HASHED for path in ROOT.glob(pattern)}
    for path in sorted(paths):
        if path.parent == LAST_RUN.parent and any(path.match(alone) for alone in TESTS_ALONE):
            continue
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def test_files() -> dict[str, str]:
    """SHA-256 of each file of tests, by its name."""
    paths = sorted(LAST_RUN.parent.glob("test_*.py"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def read() -> dict[str, Any]:
    """The last record; nothing where there is none."""
    return json.loads(LAST_RUN.read_text()) if LAST_RUN.exists() else {}


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
