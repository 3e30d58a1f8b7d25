"""Where compiled kernels are kept: the user's cache folder, keyed by version and source.

numba itself keys by CPU and writes atomically, but looks only at the file that a function stands
in; a changed callee or constant in another file would go unnoticed. So the folder's name carries
a hash over the package's version, those constants and all kernel sources. A folder that the user
chose (``NUMBA_CACHE_DIR``) is left alone.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

import platformdirs
from numba import config

_COMPILED_FROM = (
    "__init__.py",
    "types.py",
    "layout/packed_loops.py",
    "kernels/*.py",
    "validate/*.py",
)
"""The package's version, constants that are compiled in, and the compiled functions."""


def source_hash() -> str:
    """Hash over the package's version and the sources of all compiled functions."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in _sources():
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def whole_hash() -> str:
    """Hash over those and the sources of CUDA kernels: what the bytes of answers follow from."""
    digest = hashlib.sha256(source_hash().encode())
    here = Path(__file__).resolve().parent
    for path in sorted(here.glob("kernels/cuda/*.cu*")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def last_change() -> int:
    """When the newest of those sources was written, in ns: numba compiles again after that."""
    return max(path.stat().st_mtime_ns for path in _sources())


def _sources() -> list[Path]:
    here = Path(__file__).resolve().parent
    return [path for pattern in _COMPILED_FROM for path in sorted(here.glob(pattern))]


if not config.CACHE_DIR:
    _root = Path(platformdirs.user_cache_dir("ooc_graph"))
    config.CACHE_DIR = str(_root / f"numba-{version('numba')}-{source_hash()}")
