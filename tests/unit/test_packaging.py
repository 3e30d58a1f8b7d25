"""What is installed: version, dependencies, the wheel's contents, and the installing script."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import ooc_graph

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALL = ROOT / "tools" / "install.sh"
CONSTRAINTS = ROOT / "constraints" / "tested.txt"
LOCKED = ROOT / "constraints" / "locked.txt"


def requirements(extra: str | None = None) -> dict[str, Requirement]:
    project = PROJECT["project"]
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {found.name: found for found in map(Requirement, lines)}


def pins() -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE))


def test_versions_agree() -> None:
    assert importlib.metadata.version("ooc-graph") == ooc_graph.__version__
    assert f"## {ooc_graph.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_tested_versions_are_admitted() -> None:
    wanted = requirements() | requirements("report") | requirements("test") | requirements("fuzz")
    wanted |= requirements("docs") | requirements("networkx")
    tested = pins()
    assert tested["dask"] == tested["distributed"] == "2026.7.1"
    for name, version in tested.items():
        assert wanted[name].specifier.contains(version), name


def test_locked_versions() -> None:
    """Of all that the package and its pages need, by hash, and from no particular host."""
    text = LOCKED.read_text()
    entries = re.findall(r"^([\w-]+)==(\S+)(.*(?:\n    --hash=.*)*)", text, re.MULTILINE)
    ours = requirements() | requirements("report")
    assert len(entries) > len(ours)
    for name, version, rest in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), name
        wanted = ours.get(name)
        assert wanted is None or wanted.specifier.contains(version), name
        assert pins().get(name, version) == version, name
    # Names are written with hyphens there.
    assert {name.replace(".", "-") for name in ours} <= {name for name, *_ in entries}
    assert not re.search(r"://|^-", text, re.MULTILINE)


def test_oldest_versions() -> None:
    """Of what `make test CONSTRAINTS=constraints/oldest.txt` installs."""
    text = (ROOT / "constraints" / "oldest.txt").read_text()
    oldest = dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))
    ours = requirements() | requirements("report") | requirements("tables")
    assert oldest == {
        name: next(one.version for one in found.specifier if one.operator == ">=")
        for name, found in ours.items()
    }


def test_the_conda_recipe_follows() -> None:
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    said = dict(line.split(" ", 1) for line in recipe["requirements"]["run"])
    assert said.pop("python") == PROJECT["project"]["requires-python"]
    wanted = {
        name: "".join(sorted(str(found.specifier).split(","), reverse=True))
        for name, found in requirements().items()
    }
    wanted["dask-core"] = wanted.pop("dask")
    assert {
        name: "".join(sorted(it.split(","), reverse=True)) for name, it in said.items()
    } == wanted
    assert recipe["context"]["version"] == ooc_graph.__version__


def test_the_citation_names_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["version"] == ooc_graph.__version__
    assert found["license"] == PROJECT["project"]["license"]


def test_issue_forms_can_be_read() -> None:
    forms = list((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {form.stem for form in forms} == {"bug", "wish", "config"}
    for form in forms:
        assert yaml.safe_load(form.read_text())


def test_default_install_is_light() -> None:
    heavy = {"cupy", "pandas", "pyarrow", "dask-cuda", "bokeh", "matplotlib", "scipy"}
    assert not heavy & requirements().keys()


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_gpu_extras_bring_their_cuda(cuda: str) -> None:
    """Without dask-cuda's own extra, `import dask_cuda` fails for lack of cuda-bindings."""
    wanted = requirements(f"cuda{cuda}")
    assert wanted["dask-cuda"].extras == {f"cu{cuda}"}
    assert f"cupy-cuda{cuda}x" in wanted


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in the wheel of this checkout."""
    for module in ("hatchling", "pip"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed, so no wheel can be built without the network")
    folder = tmp_path_factory.mktemp("wheel")
    call = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    call += ["--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(call, check=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_wheel_has_all_of_the_package(wheel: list[str]) -> None:
    package = ROOT / "ooc_graph"
    sources = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.py")}
    assert sources <= set(wheel)
    templates = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.j2")}
    assert len(templates) == 5
    assert {"ooc_graph/py.typed"} | templates <= set(wheel)
    jobs = {f"ooc_graph/jobs/examples/{path.name}" for path in ROOT.glob("pipelines/*.toml")}
    assert len(jobs) == 4
    assert jobs | {"ooc_graph/jobs/job.schema.json"} <= set(wheel)
    cuda = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.cu*")}
    assert {name.split("/")[1] for name in cuda} == {"kernels", "validate"}
    assert cuda <= set(wheel)


def test_source_archive_has_the_cuda_sources(tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    call = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(call, check=True, cwd=ROOT, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("ooc_graph/**/*.cu*")}
    assert wanted
    assert wanted <= names


def test_wheel_has_nothing_else(wheel: list[str]) -> None:
    version = ooc_graph.__version__
    assert {name.split("/")[0] for name in wheel} == {
        "ooc_graph",
        f"ooc_graph-{version}.dist-info",
    }
    assert not [name for name in wheel if name.endswith((".pyc", ".nbi", ".nbc"))]


def install(folder: Path, extras: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    call = ["/bin/sh", str(INSTALL), str(folder), extras]
    return subprocess.run(
        call,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_no_python_that_will_do_is_one_clear_error(tmp_path: Path) -> None:
    for name in ("python3.13", "python3.12", "python3.11", "python3"):
        program(tmp_path / "bin" / name, "exit 127")
    done = install(tmp_path / "env", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "no Python from 3.11 on" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "env").exists()


def test_the_first_python_that_will_do_is_taken(tmp_path: Path) -> None:
    """A stand-in that cannot run is passed over."""
    program(tmp_path / "bin" / "python3.13", "exit 127")
    says = 'test "$1" = -c || echo "$0 $@"; test "$1" != -m'
    program(tmp_path / "bin" / "python3.12", says)
    program(tmp_path / "bin" / "python3", "exit 0")
    done = install(tmp_path / "env", PATH=str(tmp_path / "bin"))
    assert f"{tmp_path}/bin/python3.12 -m venv {tmp_path}/env" in done.stdout


@pytest.mark.parametrize(
    ("stamp", "extras", "installs"),
    [
        ("", "", False),
        ("test", "", False),
        ("test,bench", "test", False),
        ("report", "", False),
        ("test", "report", False),
        ("", "report", True),
        ("", "test", True),
        ("test", "test,bench", True),
        (None, "", True),
    ],
)
def test_installs_only_what_is_missing(
    tmp_path: Path, stamp: str | None, extras: str, installs: bool
) -> None:
    program(tmp_path / "bin" / "python", "exit 99")
    if stamp is not None:
        name = ".installed" + (f"-{stamp}" if stamp else "")
        content = (ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes()
        (tmp_path / name).write_bytes(content)
    assert install(tmp_path, extras).returncode == (99 if installs else 0)


def test_installs_again_when_the_project_changed(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python", "exit 99")
    (tmp_path / ".installed").write_text("former content")
    assert install(tmp_path).returncode == 99
    assert (tmp_path / ".installed").read_text() == "former content"
