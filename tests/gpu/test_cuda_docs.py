"""Programs and commands of the documentation that need a GPU, executed in an empty folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from tests.command_line import REPOSITORY, call
from tools.pages import blocks, prompted

DOCS = REPOSITORY / "docs"


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="the page shows a frame")
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    page = DOCS / "tutorial" / "gpu.md"
    for block in blocks(page.read_text(), "python"):
        exec(compile(block, page, "exec"), space)


@pytest.mark.parametrize(
    "page", ["explanation/gpu_disk.md", "explanation/gpu_tiers.md", "how-to/gpu.md"]
)
def test_commands(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ends = np.random.default_rng(1).integers(0, 2000, (2, 20_000))
    np.savetxt("edges.csv", ends.T, fmt="%d", delimiter=",")
    og.build("edges.csv", "GRAPH.zarr", device="cpu")
    commands = [
        line for block in blocks((DOCS / page).read_text(), "console") for line in prompted(block)
    ]
    executed = 0
    for line in commands:
        # Graph500 draws figures; tests of its own run it.
        if "--device cuda" in line and "graph500" not in line:
            done = call(monkeypatch, capsys, *shlex.split(line)[1:])
            assert done.code == 0, f"{line}\n{done.err}"
            executed += 1
    assert executed
