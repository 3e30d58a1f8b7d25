"""Programs of the documentation, executed page by page, each in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ooc_graph.search.candidates import CANDIDATES, MANY
from tests.command_line import call, script
from tools.pages import FENCE, NOT_EXECUTED
from tools.reference import error_classes, support

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_COMMANDS = {"docs/tutorial/first_graph.md", "docs/tutorial/graph500.md"}
"""Pages whose commands are executed, too; those of others are checked by `test_docs`."""


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
