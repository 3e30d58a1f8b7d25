"""The folder of compiled kernels changes with everything that is compiled into them."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import ooc_graph

PACKAGE = Path(ooc_graph.__file__).parent


def hash_of(package: Path, function: str = "source_hash") -> str:
    """What the package's copy would name its folder by, or what answers follow from."""
    spec = importlib.util.spec_from_file_location("copied_cache", package / "kernel_cache.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: str = getattr(module, function)()
    return found


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("types.py", "DEAL_BLOCK_BITS = 10", "DEAL_BLOCK_BITS = 9"),
        ("__init__.py", '__version__ = "', '__version__ = "9.'),
        ("kernels/team.py", "SPINS = 4000", "SPINS = 4001"),
        ("validate/loops.py", "import", "import  "),
    ],
)
def test_what_is_compiled_in_changes_the_folder(tmp_path, name, before, after):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    first = hash_of(tmp_path / "p")
    changed = tmp_path / "p" / name
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after, 1))
    assert hash_of(tmp_path / "p") != first
    changed.write_text(text)
    assert hash_of(tmp_path / "p") == first


@pytest.mark.parametrize(
    "name", ["kernels/cuda/many_answer.cuh", "kernels/cuda/many.cu", "types.py"]
)
def test_what_answers_follow_from_includes_kernels_of_devices(tmp_path, name):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    first = hash_of(tmp_path / "p", "whole_hash")
    folder = hash_of(tmp_path / "p")
    changed = tmp_path / "p" / name
    changed.write_text(changed.read_text() + "\n")
    assert hash_of(tmp_path / "p", "whole_hash") != first
    # numba compiles nothing again because of a device's kernels.
    assert (hash_of(tmp_path / "p") == folder) == name.startswith("kernels/cuda")
