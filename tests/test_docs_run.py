"""Programs of the documentation, executed page by page, each in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ooc_graph as og
from ooc_graph.search.candidates import CANDIDATES, MANY
from tests.command_line import call, script
from tools.pages import FENCE, NOT_EXECUTED, blocks, prompted
from tools.reference import error_classes, support

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_COMMANDS = {"docs/tutorial/first_graph.md", "docs/tutorial/graph500.md"}
"""Pages whose commands are executed between their programs."""
OF_STORES = {
    "docs/explanation/gpu_disk.md",
    "docs/explanation/gpu_tiers.md",
    "docs/explanation/graph500.md",
    "docs/explanation/tiers.md",
    "docs/how-to/many_sources.md",
    "docs/how-to/memory.md",
    "docs/how-to/moving.md",
    "docs/how-to/validate.md",
    "docs/reference/many_sources.md",
}
"""Pages whose commands are executed where `stores` are; `test_docs` checks those of the others."""


def pages_with_python() -> list[str]:
    pages = sorted(DOCS.rglob("*.md"))
    return [str(page.relative_to(ROOT)) for page in pages if "```python\n" in page.read_text()]


@pytest.mark.timeout(1200)  # kernels are compiled
@pytest.mark.filterwarnings("ignore:Note. conversions to backend graphs are saved:UserWarning")
@pytest.mark.parametrize("page", sorted(set(pages_with_python()) - NOT_EXECUTED.keys()))
def test_page(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "svg")
    space: dict[str, object] = {}
    for language, block in FENCE.findall((ROOT / page).read_text()):
        if language == "python":
            exec(compile(block, page, "exec"), space)
        elif language == "console" and page in WITH_COMMANDS:
            for line in block.splitlines():
                done = call(monkeypatch, capsys, *shlex.split(line.removeprefix("$ "))[1:])
                assert done.code == 0, f"{line}\n{done.err}"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what commands of pages read."""
    folder = tmp_path_factory.mktemp("stores")
    random = np.random.default_rng(1)
    source, target = np.arange(1100), random.integers(0, 1100, (1100, 4)).T
    edges = np.tile(source, 4), target.ravel(), random.random(4400).astype(np.float32)
    for name in ("GRAPH", "flights"):
        graph = og.build(edges, folder / f"{name}.zarr")
    og.bfs(graph, 7, out=folder / "hops.zarr")
    og.sssp(graph, 7, out=folder / "cost.zarr")
    og.components(graph, out=folder / "parts.zarr")
    og.pagerank(graph, out=folder / "ranks.zarr")
    pd.DataFrame({"srcId": edges[0], "dstId": edges[1]}).to_parquet(folder / "edges.parquet")
    (folder / "stations.txt").write_text("1\n7\n9\n")
    (folder / "towns.txt").write_text("2\n3\n")
    return folder


@pytest.mark.timeout(1200)  # kernels are compiled
@pytest.mark.parametrize("page", sorted(OF_STORES))
def test_commands(
    page: str,
    stores: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(stores, tmp_path / "here")
    monkeypatch.chdir(folder)
    executed = 0
    for block in blocks((ROOT / page).read_text(), "console"):
        for line in prompted(block):
            if "--device cuda" in line and not line.startswith("ooc-graph plan "):
                continue  # needs a GPU
            words = [
                sorted(Path().glob(word)) if "*" in word else [word]
                for word in shlex.split(line)[1:]
            ]
            done = call(monkeypatch, capsys, *chain.from_iterable(words))
            assert done.code == 0, f"{line}\n{done.err}"
            executed += 1
    assert executed


def test_pages_that_are_not_executed_exist() -> None:
    assert NOT_EXECUTED.keys() <= set(pages_with_python())


def test_every_error_has_advice() -> None:
    text = (DOCS / "how-to" / "troubleshooting.md").read_text()
    named = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    wanted = {kind.__name__ for kind in error_classes()}
    assert named == wanted, f"without a section or unknown: {named ^ wanted}"


def test_support_matrix_has_every_strategy() -> None:
    shown = support()
    for table in (CANDIDATES, MANY):
        for strategies in table.values():
            for strategy in strategies():
                assert f"`{strategy.name}`" in shown
    assert re.search(
        r"^\| `cuda/disk` \| yes \| no \| no \| yes \| no \| no \|( no \|){5}$", shown, re.MULTILINE
    )
    assert re.search(r"^\| `cpu/memory` \|( yes \|){11}$", shown, re.MULTILINE)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for needed in ("mkdocs", "material", "mkdocstrings", "mkdocs_click", "nbclient", "ipykernel"):
        pytest.importorskip(needed, reason="the extra `docs` is not installed")
    built = script("-m", "mkdocs", "build", "--strict", "-d", tmp_path / "site", cwd=ROOT)
    assert built.code == 0, built.err
    assert (tmp_path / "site" / "reference" / "support" / "index.html").is_file()
    notebook = json.loads((tmp_path / "site" / "tutorial" / "first_graph.ipynb").read_text())
    shown = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", ()) for output in shown)
    assert any("valid: " in "".join(output.get("text", ())) for output in shown)
    shutil.rmtree(tmp_path / "site")


def test_prose() -> None:
    pytest.importorskip("proselint", reason="the extra `docs` is not installed")
    words = ("--config", ROOT / ".proselintrc.json", "check", ROOT / "README.md", DOCS)
    read = script("-m", "proselint", *words, cwd=ROOT)
    assert read.code == 0, read.out + read.err
