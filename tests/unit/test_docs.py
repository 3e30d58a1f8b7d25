"""README and docs say what the code does: their programs run, their names and links exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from ooc_graph import errors
from ooc_graph.cli.entry import command as group
from ooc_graph.edges import FORMATS
from ooc_graph.jobs.reading import read_job
from ooc_graph.layout import names
from ooc_graph.runtime.signals import EXIT_TERMINATED
from tools import pages
from tools.pages import prompted

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES += sorted((ROOT / "deploy").rglob("*.md"))
USER_PAGES = [page for page in PAGES if "docs" in page.parts and page.parent.name != "decisions"]


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of one language, in order."""
    return pages.blocks(page.read_text(), language)


def commands() -> dict[str, click.Command]:
    """The subcommands by name."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def console_lines(page: Path) -> list[str]:
    return [line for block in blocks(page, "console") for line in prompted(block)]


def section(page: Path, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {title}"
    return found[1]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with README's edge file."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "flights.csv").write_text(blocks(README, "csv")[0])
    return folder


@pytest.mark.timeout(1200)  # the first command compiles the kernels
def test_quick_start_gives_what_the_readme_shows(flights: Path) -> None:
    commands = [line for line in console_lines(README) if line.startswith("ooc-graph ")]
    assert len(commands) >= 6
    for line in commands:
        call = [sys.executable, "-m", "ooc_graph", *shlex.split(line)[1:]]
        done = subprocess.run(call, cwd=flights, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert (flights / "cost.csv").read_text() == blocks(README, "csv")[1]


@pytest.mark.timeout(1200)
def test_python_of_the_readme_runs(flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(flights)
    programs = blocks(README, "python")
    space: dict[str, object] = {}
    for program in programs:
        exec(compile(program, "README.md", "exec"), space)
    assert space["answer"].distance.tolist() == [0, 3, 1, 10.5, float("inf"), float("inf")]  # type: ignore[attr-defined]
    assert space["hops"].level.tolist() == [0, 1, 1, 2, -1, -1]  # type: ignore[attr-defined]
    arcs = space["matrix"].tocoo()  # type: ignore[attr-defined]
    ids = space["original"]
    read = {(int(ids[u]), int(ids[v]), w) for u, v, w in zip(arcs.row, arcs.col, arcs.data)}  # type: ignore[index]  # noqa: B905
    rows = [line.split(",") for line in blocks(README, "csv")[0].splitlines()[1:]]
    edges = {(int(u), int(v), float(w)) for u, v, w in rows}
    assert read == edges | {(v, u, w) for u, v, w in edges}


READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
FOR_EYES = {"csv", "text", "scala"}
"""Languages of blocks that are neither executed nor parsed."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_can_be_parsed(page: Path) -> None:
    for language in set(re.findall(r"^```(\w+)", page.read_text(), re.MULTILINE)):
        for block in blocks(page, language):
            if language == "console":
                for line in prompted(block):
                    require_command(line)
            elif language == "sh":
                require_script(block)
            elif language == "python":
                ast.parse(block)
            elif language not in FOR_EYES:
                READERS[language](block)


def require_command(line: str) -> None:
    """A command that there is, with options that it has."""
    name, *arguments = shlex.split(line)
    if name == "ooc-graph":
        commands()[arguments[0]].make_context(arguments[0], arguments[1:])
    elif name == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif name == "python":
        assert (ROOT / arguments[0]).is_file(), line
    else:
        require_script(line)


def require_script(block: str) -> None:
    """A script that a shell can parse, and what it calls of this package exists."""
    subprocess.run(["sh", "-n", "-c", block], check=True)
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("ooc-graph ") and "$" not in line:
            require_command(line.split(" > ")[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_packages_come_from_a_checkout_with_extras_that_exist(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = page.read_text()
    # No index has the package: who installs it by its name may get another one.
    assert not re.search(r"pip install[^`\n]*\booc-graph\b", text)
    for extras in re.findall(r"pip install '\.\[([\w,]+)\]'", text):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys(), extras


def test_the_job_and_the_mistakes_of_its_page(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "jobs.md"
    job, uploads, cluster = blocks(page, "toml")
    (tmp_path / "night.toml").write_text(job + uploads + cluster)
    assert [stage.label for stage in read_job(tmp_path / "night.toml").stage] == [
        "bfs",
        "validate",
        "export",
        "graph-up",
        "upload",
    ]
    wrong = job.replace('"files"', '"file"').replace("roots", "root")
    (tmp_path / "night.toml").write_text(wrong)
    with pytest.raises(errors.InputError) as caught:
        read_job(tmp_path / "night.toml")
    said = blocks(ROOT / "docs" / "reference" / "jobs.md", "text")[0]
    assert str(caught.value).replace(f"{tmp_path}/", "") + "\n" == said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for path in re.findall(
        r"`((?:benchmarks|ooc_graph|tests|docs|tools|constraints)/[\w./-]+)`", text
    ):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_place_on_a_machine(page: Path) -> None:
    assert not re.search(r"/(?:root|home|work|tmp|opt)/", page.read_text())


def test_options_that_are_named_exist() -> None:
    known = {
        option
        for command in commands().values()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for page in (README, *USER_PAGES):
        for code in re.findall(r"`([^`\n]+)`", page.read_text()):
            if code.startswith(("sbatch ", "#SBATCH ", "pip ")):
                continue
            script = re.search(r"benchmarks/\w+\.py", code)
            options = (
                set(re.findall(r"(--[a-z][a-z-]*)", (ROOT / script[0]).read_text()))
                if script
                else known
            )
            unknown = set(re.findall(r"(--[a-z][a-z-]*)", code)) - options - {"--help", "--version"}
            assert not unknown, f"{page.name}: {unknown} in {code}"


def test_every_format_is_described() -> None:
    page = ROOT / "docs" / "reference" / "formats.md"
    rows = [line.split("|")[1] for line in page.read_text().splitlines() if line[:3] == "| `"]
    assert set(FORMATS) <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_exit_codes_are_those_of_the_errors() -> None:
    table = section(ROOT / "docs" / "reference" / "errors.md", "Exit codes")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    used = {kind.exit_code for kind in kinds if issubclass(kind, errors.OocGraphError)}
    assert used | {0, EXIT_TERMINATED} <= documented


def test_storage_page_names_every_array() -> None:
    text = (ROOT / "docs" / "reference" / "storage.md").read_text()
    arrays = [names.ORIGINAL_OF, names.INTERNAL_OF, names.ORIGINALS, names.TUPLES, names.VERTEX]
    arrays += [names.PARENT, names.LEVEL, names.DISTANCE, names.OUT, names.IN, names.HUB]
    for name in [*arrays, names.LIGHT, names.INTEGRITY, names.MANIFEST, names.ATTRIBUTES_KEY]:
        assert re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", text), name
    assert f"format version {names.FORMAT_VERSION}" in text
    assert f"{names.CHUNK_BYTES >> 20} MiB" in text


VOCABULARY = {
    r"anew": "again",
    r"beside": "in addition to, next to, compared with",
    r"but for": "except",
    r"bytes an? (?:arc|edge|pair|row|vertex)": "bytes per row",
    r"dealt": "distributed",
    r"(?:given|gives) up": "cancelled, abandoned",
    r"goes on": "continues",
    r"(?:has|have|is|had) (?:no )?room": "memory suffices",
    r"heeds?": "respects",
    r"mend(?:s|ed)?": "correct, fix",
    r"nobody|somebody|whoever": "a noun",
    r"reckon(?:ed|s)?": "count",
    r"will do": "suffices",
}
"""Wordings that readers stumble over, and what to write instead."""
EDITED = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
EDITED += [page for page in PAGES if "docs" in page.parts and page.parent.name != "benchmarks"]


@pytest.mark.parametrize("page", EDITED, ids=lambda page: page.name)
def test_words_are_plain(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", page.read_text(), flags=re.DOTALL)
    for words, better in VOCABULARY.items():
        found = re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)
        assert not found, f"{page.name}: {found[0]!r}: write {better}"  # type: ignore[index]
