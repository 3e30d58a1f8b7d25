"""A job on a disk that fails: one clear error, nothing finished is lost, and the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import REPOSITORY
from tests.hostile.failing_disk import WAYS

LIMIT_S = 3000
SEED = int(os.environ.get("OOC_GRAPH_SEED", "23"))
SOME = 700
# Each operation in its turn takes half an hour.
ALL = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a C compiler (cc) on Linux is needed")
    made = tmp_path_factory.mktemp("library") / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.mark.parametrize(
    ("ways", "every"),
    [
        pytest.param(WAYS, SOME, id="some"),
        *(pytest.param([way], 1, id=way, marks=ALL) for way in WAYS),
    ],
)
def test_each_operation_that_fails(
    ways: list[str], every: int, library: Path, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    words = [sys.executable, "-m", "tests.hostile.failing_disk", library, tmp_path]
    for way in ways:
        # Others have fewer operations.
        step = every if way in ("full", "broken") else max(1, every // 4)
        words += [way, random.Random(f"{SEED} {way}").randint(1, step), step]
    done = subprocess.run(
        list(map(str, words)),
        cwd=REPOSITORY,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, end="")
